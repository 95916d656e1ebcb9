"""`/v1/gitops`: sources, rollouts, previews, and the way from an allocation to its commit."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from starlette.responses import Response

from orchgit.api import nomad_json
from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import Call
from orchgit.api.gitops_port import GitopsPort
from orchgit.api.pagination import PageRequest, by_index
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, NotFoundError, UnavailableError
from orchgit.model.allocation import Allocation
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.model.volume import TaskGroupVolumeClaim
from orchgit.services.rollouts import delete_rollouts
from orchgit.services.sources import delete_source, pause_source, put_source
from orchgit.state.snapshot import Snapshot

MAX_PLAN_BODY_BYTES = 64 * 1024 * 1024


async def sources(call: Call) -> Response:
    page = PageRequest.of(call)

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        return page.apply(snapshot.sources(), lambda each: each.name)

    return await answer_list(call, ("sources",), read)


async def source(call: Call) -> Response:
    name = call.path["name"]
    missing = f'cannot find source "{name}"; `orchgit source list` shows them'
    return await answer_object(call, ("sources",), lambda snapshot: snapshot.source(name), missing)


async def put(call: Call) -> Response:
    wanted = nomad_json.decode(await call.body(), Source)
    name = call.path["name"]
    if wanted.name not in ("", name):
        raise InvalidInputError("cannot store the source: its name does not match the path")
    wanted.name = name
    if call.context.gitops is not None:
        call.context.gitops.check_source(wanted)
    index = await put_source(call.world, wanted)
    call.context.wake_source(name)
    return call.answer({"Index": index}, index=index)


async def delete(call: Call) -> Response:
    index = await delete_source(call.world, call.path["name"])
    return call.answer({"Index": index}, index=index)


async def pause(call: Call) -> Response:
    index = await pause_source(call.world, call.path["name"], True)
    return call.answer({"Index": index}, index=index)


async def resume(call: Call) -> Response:
    index = await pause_source(call.world, call.path["name"], False)
    call.context.wake_source(call.path["name"])
    return call.answer({"Index": index}, index=index)


async def sync(call: Call) -> Response:
    name = call.path["name"]
    with call.world.snapshot() as snapshot:
        if snapshot.source(name) is None:
            raise NotFoundError(f'cannot find source "{name}"; `orchgit source list` shows them')
        index = snapshot.index
    call.context.wake_source(name)
    return call.answer({"Index": index}, index=index)


async def plan(call: Call) -> Response:
    """What a commit with these files would do; `BaseFiles` instead of what is registered now."""
    body = nomad_json.decode_tree(await call.body(MAX_PLAN_BODY_BYTES))
    base = nomad_json.get(body, "BaseFiles")
    planned = await _gitops(call).plan_files(
        call.path["name"],
        _files(nomad_json.get(body, "Files", [])),
        None if base is None else _files(base),
    )
    return call.answer(planned)


def _gitops(call: Call) -> GitopsPort:
    if call.context.gitops is None:
        raise UnavailableError("cannot do this here: gitops does not run on this server")
    return call.context.gitops


def _files(entries: list[dict[str, Any]]) -> list[tuple[str, bytes]]:
    try:
        return [
            (nomad_json.get(each, "Path"), base64.b64decode(nomad_json.get(each, "Content", "")))
            for each in entries
        ]
    except binascii.Error as error:
        raise InvalidInputError(f"cannot read the files: not base64 ({error})") from error


async def rollouts(call: Call) -> Response:
    page, wanted = PageRequest.of(call), call.query.get("source") or None

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        whole = page.matches or page.next_token or page.reverse or not page.per_page
        newest = snapshot.rollouts(wanted, limit=None if whole else page.per_page + 1)
        return page.apply(newest, by_index)

    return await answer_list(call, ("rollouts",), read)


async def rollout(call: Call) -> Response:
    rollout_id = call.path["rollout_id"]
    return await answer_object(
        call,
        ("rollouts",),
        lambda snapshot: find_rollout(snapshot, rollout_id),
        f'cannot find rollout "{rollout_id}"; `orchgit rollout list` shows them',
    )


def find_rollout(snapshot: Snapshot, text: str) -> Rollout | None:
    """By id, or by the beginning of an id or of a commit; the newest one that fits."""
    exact = snapshot.rollout(text)
    if exact is not None or len(text) < 4:
        return exact
    return next(
        (
            each
            for each in snapshot.rollouts()
            if each.id.startswith(text) or each.commit.id.startswith(text)
        ),
        None,
    )


async def revert(call: Call) -> Response:
    with call.world.snapshot() as snapshot:
        found = find_rollout(snapshot, call.path["rollout_id"])
    if found is None:
        raise NotFoundError(f'cannot find rollout "{call.path["rollout_id"]}"')
    return call.answer(await _gitops(call).revert(found.id))


async def forget(call: Call) -> Response:
    index = await delete_rollouts(call.world, [call.path["rollout_id"]])
    return call.answer({"Index": index}, index=index)


async def blame(call: Call) -> Response:
    """An allocation or claim (or the beginning of its id) back to the line of the commit."""
    wanted = call.path["id"]

    def read(snapshot: Snapshot) -> Any:
        allocation = snapshot.allocation(wanted) or _only(snapshot.allocations(None, wanted))
        if allocation is not None:
            return _origin_of_allocation(snapshot, allocation)
        claims = [each for each in snapshot.volume_claims() if each.id.startswith(wanted)]
        claim = _only(claims)
        return _origin_of_claim(snapshot, claim) if claim else None

    missing = f'cannot find an allocation or volume claim "{wanted}"'
    return await answer_object(call, ("allocations", "volume_claims"), read, missing)


def _only(found: Any) -> Any:
    return found[0] if len(found) == 1 else None


def _origin_of_allocation(snapshot: Snapshot, each: Allocation) -> dict[str, Any]:
    job = snapshot.job_of_allocation(each)
    value = {
        "AllocID": each.id,
        "NodeID": each.node_id,
        "NodeName": each.node_name,
        "Namespace": each.namespace,
        "JobID": each.job_id,
        "JobVersion": each.job_version,
        "TaskGroup": each.task_group,
    }
    return value | _commit_fields(snapshot, job, each.commit_id, each.rollout_id)


def _origin_of_claim(snapshot: Snapshot, claim: TaskGroupVolumeClaim) -> dict[str, Any]:
    job = snapshot.job(claim.namespace, claim.job_id)
    value = {
        "ClaimID": claim.id,
        "AllocID": claim.alloc_id,
        "VolumeID": claim.volume_id,
        "Namespace": claim.namespace,
        "JobID": claim.job_id,
        "JobVersion": job.version if job else 0,
        "TaskGroup": claim.task_group_name,
    }
    return value | _commit_fields(snapshot, job, claim.commit_id, claim.rollout_id)


def _commit_fields(snapshot: Snapshot, job: Any, commit_id: str, rollout_id: str) -> dict[str, Any]:
    origin = job.origin if job is not None else None
    found = snapshot.rollout(rollout_id) if rollout_id else None
    commit = found.commit if found else None
    return {
        "Source": origin.source if origin else (found.source if found else ""),
        "CommitID": commit_id or (origin.commit_id if origin else ""),
        "RolloutID": rollout_id or (origin.rollout_id if origin else ""),
        "Author": commit.author if commit else (origin.author if origin else ""),
        "Subject": commit.subject if commit else (origin.subject if origin else ""),
        "CommitTime": commit.time_ns if commit else 0,
        "File": origin.file if origin else "",
        "Line": origin.line if origin else 0,
    }


ENDPOINTS = [
    endpoint("/v1/gitops/sources", get=sources),
    endpoint("/v1/gitops/source/{name}", get=source, put=put, delete=delete),
    endpoint("/v1/gitops/source/{name}/pause", put=pause),
    endpoint("/v1/gitops/source/{name}/resume", put=resume),
    endpoint("/v1/gitops/source/{name}/sync", put=sync),
    endpoint("/v1/gitops/source/{name}/plan", put=plan),
    endpoint("/v1/gitops/rollouts", get=rollouts),
    endpoint("/v1/gitops/rollout/{rollout_id}", get=rollout, delete=forget),
    endpoint("/v1/gitops/rollout/{rollout_id}/revert", put=revert),
    endpoint("/v1/gitops/blame/{id}", get=blame),
]
