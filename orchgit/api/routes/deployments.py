"""Deployments: lists, one, and what operators do to them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object, blocking_read
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest, by_index, in_order_of_creation
from orchgit.api.routes.allocations import answer_allocations
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json, nomad_json
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.deployment import Deployment
from orchgit.services.deployments import (
    DeploymentChange,
    fail_deployment,
    pause_deployment,
    promote_deployment,
    set_deployment_health,
)
from orchgit.state.snapshot import Snapshot

_PROMOTE = go_json.Fields(
    "structs.DeploymentPromoteRequest",
    {"DeploymentID": go_json.text, "All": go_json.flag, "Groups": go_json.texts},
)
_PAUSE = go_json.Fields(
    "structs.DeploymentPauseRequest", {"DeploymentID": go_json.text, "Pause": go_json.flag}
)
_HEALTH = go_json.Fields(
    "structs.DeploymentAllocHealthRequest",
    {
        "DeploymentID": go_json.text,
        "HealthyAllocationIDs": go_json.texts,
        "UnhealthyAllocationIDs": go_json.texts,
    },
)


async def list_deployments(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.id_prefix()

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        known = call.visible(snapshot.deployments.all(call.namespaces, prefix))
        found = in_order_of_creation(known)
        chosen, headers = page.apply(found, by_index)
        return [shown(each) for each in chosen], headers

    return await answer_list(call, ("deployments",), read)


async def of_job(call: ApiCall) -> Response:
    everything = call.flag("all")

    def read(snapshot: Snapshot) -> list[Any]:
        job_id = call.path["job_id"]
        found = in_order_of_creation(snapshot.deployments.of_job(call.namespace, job_id))
        job = snapshot.jobs.get(call.namespace, job_id)
        oldest = 0 if everything or job is None else job.create_index
        return [shown(each) for each in found[::-1] if each.job_create_index >= oldest]

    return await answer_list(call, ("deployments",), read)


async def latest_of_job(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> tuple[Deployment | None, int]:
        found = snapshot.deployments.latest_of_job(call.namespace, call.path["job_id"])
        return found, found.modify_index if found else snapshot.table_indexes.newest("deployments")

    found, index = await blocking_read(call, ("deployments",), read, is_one_row=True)
    return call.answer(shown(found) if found else None, index=index, read=True)


async def read_deployment(call: ApiCall) -> Response:
    deployment_id = call.object_id("id", "deployment")

    def read(snapshot: Snapshot) -> Deployment | None:
        return snapshot.deployments.get(deployment_id)

    return await answer_object(
        call,
        ("deployments",),
        read,
        "deployment not found",
        shown,
        key=deployment_id,
        is_one_row=True,
    )


def shown(deployment: Deployment) -> Any:
    """Returns the deployment as Go writes it: a deadline that is not set is the zero time, not
    null."""
    value = nomad_json.tree(deployment)
    for state in value["TaskGroups"].values():
        state["RequireProgressBy"] = state["RequireProgressBy"] or nomad_json.ZERO_TIME
    return value


async def allocations(call: ApiCall) -> Response:
    return await answer_allocations(
        call, lambda snapshot: snapshot.allocations.of_deployment(call.path["id"])
    )


async def promote(call: ApiCall) -> Response:
    body = await call.fields(_PROMOTE)
    everything, groups = body.get("All", False), body.get("Groups") or []
    if not everything and not groups:
        raise InvalidInputError(
            "cannot promote the deployment: the body names no group; send Groups, or All: true"
        )
    groups = [] if everything else groups
    return _changed(call, await promote_deployment(call.context, call.path["id"], groups))


async def pause(call: ApiCall) -> Response:
    body = await call.fields(_PAUSE)
    if "Pause" not in body:
        raise InvalidInputError(
            "cannot pause or resume the deployment: the body does not say which; send Pause"
        )
    paused = body["Pause"]
    return _changed(call, await pause_deployment(call.context, call.path["id"], paused))


async def fail(call: ApiCall) -> Response:
    return _changed(call, await fail_deployment(call.context, call.path["id"]))


async def health(call: ApiCall) -> Response:
    body = await call.fields(_HEALTH)
    done = await set_deployment_health(
        call.context,
        call.path["id"],
        body.get("HealthyAllocationIDs") or [],
        body.get("UnhealthyAllocationIDs") or [],
    )
    return _changed(call, done)


async def unblock(call: ApiCall) -> Response:
    """Refuses: only deployments of jobs in several regions wait for this."""
    with call.context.snapshot() as snapshot:
        found = snapshot.deployments.get(call.path["id"])
    if found is None:
        raise RefusedError("deployment not found")
    if not found.is_active:
        raise RefusedError("can't unblock terminal deployment")
    raise RefusedError(f"cannot unblock deployment {found.id}: it is not blocked")


def _changed(call: ApiCall, done: DeploymentChange) -> Response:
    value = {
        "EvalID": done.eval_id,
        "EvalCreateIndex": done.index if done.eval_id else 0,
        "DeploymentModifyIndex": done.index,
        "RevertedJobVersion": done.reverted_job_version,
        "Index": done.index,
    }
    return call.answer(value, index=done.index)


ENDPOINTS = [
    endpoint("/v1/deployments", get=list_deployments),
    endpoint("/v1/deployment/allocations/{id}", get=allocations),
    endpoint("/v1/deployment/promote/{id}", put=promote),
    endpoint("/v1/deployment/pause/{id}", put=pause),
    endpoint("/v1/deployment/fail/{id}", put=fail),
    endpoint("/v1/deployment/unblock/{id}", put=unblock),
    endpoint("/v1/deployment/allocation-health/{id}", put=health),
    endpoint("/v1/deployment/{id}", get=read_deployment),
    endpoint("/v1/job/{job_id:path}/deployments", get=of_job),
    endpoint("/v1/job/{job_id:path}/deployment", get=latest_of_job),
]
