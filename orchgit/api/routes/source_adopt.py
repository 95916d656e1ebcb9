"""`PUT /v1/gitops/source/NAME/adopt`: a source takes over jobs that have no source."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.caller import user_name
from orchgit.api.routes.source_status import required_gitops
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.ownership import owner_of
from orchgit.services.gitops.pauses import pause_text
from orchgit.services.gitops.sources import change_source

JobKey = tuple[str, str]


async def adopt(call: ApiCall) -> Response:
    """Sets the source's `Adopt`, checks it for new commits, and has it take over the jobs without a
    source of which it has a file.

    Answers with the jobs that were taken, each with the removed source that had it, if any.
    """
    name, gitops = call.path["name"], required_gitops(call)
    before = await asyncio.to_thread(_without_source, call, name)
    await change_source(call.context, name, lambda source: replace(source, adopt=True))
    by = user_name(call)
    result = await gitops.sync(name, by, call.author)
    if not result.commit_id:
        raise ConflictError(
            f'cannot adopt jobs for source "{name}": '
            + (result.text or "it has no commit yet; push one first")
        )
    rollout = None
    if result.result in ("applied", "unchanged"):
        rollout = await gitops.adopt(name, by, call.writes)
    with call.context.snapshot() as snapshot:
        index, owned = snapshot.index, snapshot.jobs.keys_of_source(name)
    answer: dict[str, Any] = {"Index": index, **nomad_json.tree(result)}
    if rollout is not None:
        answer["RolloutID"] = rollout.id
    answer["Taken"] = [
        {"Namespace": namespace, "JobID": job_id, "FormerSource": before[namespace, job_id]}
        for namespace, job_id in owned
        if (namespace, job_id) in before
    ]
    return call.answer(answer, index=index)


def _without_source(call: ApiCall, name: str) -> dict[JobKey, str]:
    """Returns the registered jobs that no source owns, each with the removed source that did, or
    ''. Raises NotFoundError for an unknown source, and ConflictError for a paused one."""
    with call.context.snapshot() as snapshot:
        source = snapshot.sources.get(name)
        if source is None:
            raise NotFoundError(f'cannot find source "{name}"; `orchgit source list` shows them')
        if source.paused:
            raise ConflictError(
                f'cannot adopt jobs for source "{name}": it is {pause_text(source)}; go on with '
                f"`orchgit source resume {name}`"
            )
        sources = {each.name for each in snapshot.sources.all()}
        return {
            (job.namespace, job.id): owner_of(job)
            or (job.origin.former_source if job.origin else "")
            for job in snapshot.jobs.all()
            if not job.stop and not job.parent_id and owner_of(job) not in sources
        }


ENDPOINTS = [endpoint("/v1/gitops/source/{name}/adopt", put=adopt)]
