"""The pages: the address of each, what it asks of the API, and the template that shows it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from orchgit.api.ui.inner_client import AnswerError, InnerClient

MAX_ROWS = 500
"""Of one table. A page with more rows is slow to read and to send again at each change."""
_PER_PAGE = 50
_JOBS_PER_PAGE = 200

Values = Mapping[str, Any]
Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """`load` gets the names in the address, and its query."""

    pattern: re.Pattern[str]
    template: str
    section: str
    load: Callable[[InnerClient, Mapping[str, str], Query], Awaitable[Values]]


async def _if_allowed(asked: Awaitable[Any]) -> Any:
    """Returns a list that the page can do without; an empty one where the reader may not see it."""
    try:
        return await asked
    except AnswerError as error:
        if error.status != 403:
            raise
        return []


async def _sources(api: InnerClient, names: Mapping[str, str], query: Query) -> Values:
    sources, drifted = await asyncio.gather(
        api.get("gitops", "sources"), _if_allowed(api.get("gitops", "drift", namespace="*"))
    )
    return {
        "title": "Sources",
        "sources": sources[:MAX_ROWS],
        "left_out": max(0, len(sources) - MAX_ROWS),
        "drifted": drifted[:MAX_ROWS],
    }


async def _source(api: InnerClient, names: Mapping[str, str], query: Query) -> Values:
    name = names["name"]
    found, drifted, held, rollouts = await asyncio.gather(
        api.get("gitops", "source", name),
        _if_allowed(api.get("gitops", "drift", source=name, namespace="*")),
        api.get("gitops", "source", name, "held"),
        api.get("gitops", "rollouts", source=name, per_page=10),
    )
    return {
        "title": f"Source {name}",
        "source": found,
        "drifted": drifted[:MAX_ROWS],
        "held": held[:MAX_ROWS],
        "rollouts": rollouts,
    }


async def _rollouts(api: InnerClient, names: Mapping[str, str], query: Query) -> Values:
    source, status = query.get("source", ""), query.get("status", "")
    found, following = await api.page(
        "gitops",
        "rollouts",
        source=source,
        status=status,
        per_page=_PER_PAGE,
        next_token=query.get("next", ""),
    )
    return {
        "title": "Rollouts",
        "rollouts": found,
        "source": source,
        "status": status,
        "next": following,
    }


async def _rollout(api: InnerClient, names: Mapping[str, str], query: Query) -> Values:
    found = await api.get("gitops", "rollout", names["id"])
    report: Mapping[str, Any] = {"Failures": [], "Services": []}
    if found["AppliedTime"]:
        report = await api.get("gitops", "rollout", found["ID"], "report")
    changed = [job for job in found["Jobs"] if job["Action"] != "unchanged"]
    stages: dict[int, list[Any]] = {}
    for job in changed[:MAX_ROWS]:
        stages.setdefault(job["Stage"], []).append(job)
    return {
        "title": f"Rollout {found['ID'][:8]}",
        "rollout": found,
        "stages": sorted(stages.items()),
        "left_out": max(0, len(changed) - MAX_ROWS),
        "unchanged": len(found["Jobs"]) - len(changed),
        "report": report,
    }


async def _jobs(api: InnerClient, names: Mapping[str, str], query: Query) -> Values:
    namespace, prefix = query.get("namespace", "*"), query.get("prefix", "")
    found, following = await api.page(
        "jobs",
        namespace=namespace,
        prefix=prefix,
        per_page=_JOBS_PER_PAGE,
        next_token=query.get("next", ""),
    )
    return {
        "title": "Jobs",
        "jobs": found,
        "namespace": namespace,
        "prefix": prefix,
        "next": following,
    }


async def _job(api: InnerClient, names: Mapping[str, str], query: Query) -> Values:
    namespace, job_id = names["namespace"], names["job"]
    job = await api.get("job", job_id, namespace=namespace)
    allocations, summary, drifted = await asyncio.gather(
        api.get("job", job_id, "allocations", namespace=namespace),
        api.get("job", job_id, "summary", namespace=namespace),
        _if_allowed(api.get("gitops", "drift", namespace=namespace)),
    )
    allocations.sort(key=lambda each: (-each["CreateIndex"], each["ID"]))
    return {
        "title": f"Job {job_id}",
        "job": job,
        "allocations": allocations[:MAX_ROWS],
        "left_out": max(0, len(allocations) - MAX_ROWS),
        "groups": sorted((summary.get("Summary") or {}).items()),
        "drifted": [each for each in drifted if each["JobID"] == job_id],
    }


PAGES = (
    Page(re.compile("/ui/sources"), "sources.html", "sources", _sources),
    Page(re.compile("/ui/source/(?P<name>[^/]+)"), "source.html", "sources", _source),
    Page(re.compile("/ui/rollouts"), "rollouts.html", "rollouts", _rollouts),
    Page(re.compile("/ui/rollout/(?P<id>[^/]+)"), "rollout.html", "rollouts", _rollout),
    Page(re.compile("/ui/jobs"), "jobs.html", "jobs", _jobs),
    Page(re.compile("/ui/job/(?P<namespace>[^/]+)/(?P<job>[^/]+)"), "job.html", "jobs", _job),
)


def find_page(raw_path: str) -> tuple[Page, dict[str, str]]:
    """Returns the page at a path as it is in the address, with %, and the names in it. Raises
    AnswerError."""
    for page in PAGES:
        match = page.pattern.fullmatch(raw_path)
        if match is not None:
            names = {key: unquote(value) for key, value in match.groupdict().items()}
            return page, names
    raise AnswerError(404, "There is no such page.")
