"""`/v1/gitops/sources` and `/v1/gitops/source/NAME`: sources with their health, and `sync`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response

from orchgit.api.blocking import wait_parameters
from orchgit.api.call import ApiCall
from orchgit.api.caller import name_of_person, user_name
from orchgit.api.errors import text_response
from orchgit.api.gitops_port import GitopsPort, SourceReportPort
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.clock import SECOND_NS
from orchgit.durations import DurationError, parse_ns
from orchgit.errors import (
    InvalidInputError,
    NotAllowedError,
    NotFoundError,
    UnavailableError,
)
from orchgit.model.author import AuthoredChange
from orchgit.model.source_health import SyncResult
from orchgit.state.snapshot import Snapshot
from orchgit.wait_first import wait_first

T = TypeVar("T")
_TABLES = (
    *("sources", "rollouts", "jobs", "allocations", "deployments", "evaluations", "git_refs"),
    *("held_versions", "drifted_jobs"),
)
"""What the health of a source follows from."""
_MAX_SYNC_WAIT_S = 600.0
_READ_SHARE = 4
"""A blocking query waits this many times as long as its last read took before it reads again."""


async def sources(call: ApiCall) -> Response:
    page, gitops = PageRequest.of(call), required_gitops(call)

    def read(snapshot: Snapshot) -> tuple[list[SourceReportPort], int]:
        reports = [each for each in gitops.reports(snapshot) if call.sees(each.source.namespace)]
        newest = snapshot.table_indexes.newest("sources")
        return reports, max([newest, *(each.modify_index for each in reports)])

    reports, index = await _moved(call, read)
    shown, headers = page.apply([_shown(each) for each in reports], lambda each: str(each["Name"]))
    return call.answer(shown, index=index, headers=headers, read=True)


async def source(call: ApiCall) -> Response:
    name, gitops = call.path["name"], required_gitops(call)
    change: AuthoredChange | None = None

    def read(snapshot: Snapshot) -> tuple[SourceReportPort | None, int]:
        found = snapshot.sources.get(name)
        if found is None:
            return None, snapshot.table_indexes.newest("sources")
        report = gitops.report(snapshot, found)
        nonlocal change
        change = snapshot.authored_changes.get("sources", name)
        return report, report.modify_index

    report, index = await _moved(call, read)
    if report is None:
        headers = {"X-Nomad-Index": str(max(index, 1)), **call.contact_headers()}
        missing = f'cannot find source "{name}"; `orchgit source list` shows them'
        return text_response(missing, 404, headers)
    shown = {**_shown(report), "Token": None if change is None else nomad_json.tree(change)}
    return call.answer(shown, index=index, read=True)


def _shown(report: SourceReportPort) -> dict[str, Any]:
    shown: dict[str, Any] = nomad_json.tree(report.source)
    shown["Health"] = nomad_json.tree(report.health)
    shown["Check"] = nomad_json.tree(report.check)
    return shown


async def _moved(call: ApiCall, read: Callable[[Snapshot], tuple[T, int]]) -> tuple[T, int]:
    """Returns what `read` returns, once its index exceeds the request's `index` or the wait ends.

    Reads in a thread, since a source may have many jobs, and less often the longer reading takes.
    """
    min_index, wait_s = wait_parameters(call)
    store, clock = call.context.state.store, call.context.clock

    def read_now() -> tuple[T, int, int]:
        with store.snapshot() as snapshot:
            value, index = read(snapshot)
            return value, max(index, 1), snapshot.index

    deadline_s = clock.monotonic_s() + wait_s
    while True:
        began_s = clock.monotonic_s()
        value, index, seen = await asyncio.to_thread(read_now)
        ended_s = clock.monotonic_s()
        remaining_s = deadline_s - ended_s
        if not min_index or index > min_index or remaining_s <= 0:
            return value, index
        await clock.sleep(min(remaining_s, _READ_SHARE * (ended_s - began_s)))
        remaining_s = deadline_s - clock.monotonic_s()
        await store.watch.wait(_TABLES, max(seen, min_index), max(remaining_s, 0.0))
        call.refresh_access()


async def sync(call: ApiCall) -> Response:
    """Checks a source for new commits now; with `wait`, answers when that is done.

    With `Rerun`, runs jobs of the applied commit again, and answers with the rollout.
    """
    name = call.path["name"]
    with call.context.snapshot() as snapshot:
        known = snapshot.sources.get(name)
        if known is None:
            raise NotFoundError(f'cannot find source "{name}"; `orchgit source list` shows them')
        index = snapshot.index
    sent = await call.body()
    body = nomad_json.decode_tree(sent) if sent.strip() else {}
    rerun, reason = nomad_json.get(body, "Rerun", []), nomad_json.get(body, "OverrideWindow", "")
    by = user_name(call, nomad_json.get(body, "By", ""))
    if rerun and reason:
        raise InvalidInputError("cannot use OverrideWindow with Rerun, which waits for no window")
    if rerun:
        if not (isinstance(rerun, list) and all(isinstance(each, str) for each in rerun)):
            raise InvalidInputError("cannot run jobs again: Rerun is a list of job ids")
        keys = [(call.namespace, job_id) for job_id in rerun]
        rollout = await required_gitops(call).rerun(name, keys, by, call.writes)
        return call.answer(rollout, index=call.context.state.store.watch.applied_index)
    wait_s = _sync_wait_s(call)
    if reason:
        if not call.rights.allows_namespace(known.namespace, "gitops-approve"):
            raise NotAllowedError("Permission denied")
        by = name_of_person(call, body)
        work = required_gitops(call).override_window(name, reason, by, call.author)
        result = await _synced(call, work, wait_s or _MAX_SYNC_WAIT_S)
    elif wait_s:
        result = await _synced(call, required_gitops(call).sync(name, by, call.author), wait_s)
    else:
        required_gitops(call).wake(name, by, call.author)
        return call.answer({"Index": index}, index=index)
    index = call.context.state.store.watch.applied_index
    return call.answer({"Index": index, **nomad_json.tree(result)}, index=index)


async def _synced(
    call: ApiCall, work: Coroutine[Any, Any, SyncResult], wait_s: float
) -> SyncResult:
    async with wait_first(work, call.context.clock.sleep(wait_s)) as (done, _):
        if done.done():
            result: SyncResult = done.result()
            return result
    text = "still checking; `orchgit source status` shows the result"
    return SyncResult("checking", text)


def _sync_wait_s(call: ApiCall) -> float:
    text = call.query.get("wait") or "0"
    try:
        wait_s = parse_ns(text) / SECOND_NS
    except DurationError as error:
        raise InvalidInputError("Invalid wait time") from error
    if not 0 <= wait_s <= _MAX_SYNC_WAIT_S:
        raise InvalidInputError("cannot wait for a sync: wait is at most 10m")
    return wait_s


def required_gitops(call: ApiCall) -> GitopsPort:
    """Returns the gitops of this server. Raises UnavailableError where there is none."""
    if call.api.gitops is None:
        raise UnavailableError("cannot do this here: gitops does not run on this server")
    return call.api.gitops


ENDPOINTS = [
    endpoint("/v1/gitops/sources", get=sources),
    endpoint("/v1/gitops/source/{name}/sync", put=sync),
]
