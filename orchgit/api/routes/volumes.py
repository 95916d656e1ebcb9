"""Host volumes and the claims that tie groups to them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.pagination import PageRequest, by_index
from orchgit.api.routes.csi_volumes import list_volumes as list_csi_volumes
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json, nomad_json
from orchgit.api.shapes.stubs import alloc_stub
from orchgit.errors import InvalidInputError, NotFoundError, RefusedError
from orchgit.model.volume import HostVolume
from orchgit.services.host_volumes import (
    delete_host_volume,
    delete_volume_claim,
    put_host_volume,
    wait_for_volume,
)
from orchgit.state.snapshot import Snapshot

_STUB = (
    "ID",
    "Name",
    "Namespace",
    "NodeID",
    "NodePool",
    "PluginID",
    "CapacityBytes",
    "State",
    "CreateIndex",
    "CreateTime",
    "ModifyIndex",
    "ModifyTime",
)

_VOLUME = go_json.Fields("api.HostVolumeCreateRequest", {"Volume": go_json.tree("api.HostVolume")})

MAKE_TIMEOUT_S = 5.0
"""How long an answer waits for the node's agent to make a volume."""


async def list_volumes(call: ApiCall) -> Response:
    kind = call.query.get("type")
    if kind is None:
        return call.answer([])
    if kind not in ("host", "csi"):
        return text_response("resource not found", 404)
    if kind == "csi":
        return await list_csi_volumes(call)
    page, node_id = PageRequest.of(call), call.query.get("node_id")
    prefix, pool = call.id_prefix("host volume lookup failed: "), call.query.get("node_pool")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = [
            each
            for each in snapshot.host_volumes.all(call.namespaces, node_id=node_id or None)
            if each.id.startswith(prefix)
            and pool in (None, "", each.node_pool)
            and call.rights.allows_namespace(each.namespace, "host-volume-read")
        ]
        chosen, headers = page.apply(found, lambda each: each.id)
        trees = map(nomad_json.tree, chosen)
        return [{name: tree[name] for name in _STUB} for tree in trees], headers

    return await answer_list(call, ("host_volumes",), read)


async def read_volume(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        volume = snapshot.host_volumes.get(call.path["volume_id"])
        return None if volume is None else _with_allocations(call, snapshot, volume)

    return await answer_object(call, ("host_volumes", "allocations"), read, "volume not found")


def _with_allocations(call: ApiCall, snapshot: Snapshot, volume: HostVolume) -> dict[str, Any]:
    """Returns the volume with the allocations that use it; of other namespaces only those that the
    caller may read."""
    users = []
    for allocation in snapshot.allocations.of_node(volume.node_id, terminal=False):
        namespace = allocation.namespace
        if namespace != volume.namespace and not call.rights.allows_namespace(
            namespace, "read-job"
        ):
            continue
        job = snapshot.job_versions.of_allocation(allocation)
        group = job.group(allocation.task_group) if job else None
        requests = ((group.volumes if group else None) or {}).values()
        if any(each.type == "host" and each.source == volume.name for each in requests):
            users.append(alloc_stub(allocation))
    return {**nomad_json.tree(volume), "Allocations": users}


async def create(call: ApiCall) -> Response:
    return await _put(call, with_home=True)


async def register(call: ApiCall) -> Response:
    return await _put(call, with_home=False)


async def _put(call: ApiCall, with_home: bool) -> Response:
    """Stores the volume, and answers with what was asked for. `with_home`: also with the pool that
    was found for it."""
    tree = (await call.fields(_VOLUME)).get("Volume")
    if tree is None:
        raise InvalidInputError("cannot store a volume: the body has no Volume")
    volume = nomad_json.convert(tree, HostVolume, "Volume.")
    volume.namespace = call.namespace if call.query.get("namespace") else volume.namespace
    named = {str(key).lower() for key in tree}
    stored = await put_host_volume(call.context, volume)
    stored = await wait_for_volume(call.context, stored, MAKE_TIMEOUT_S)
    # As clients know it: the volume as it was asked for, with the path that the node gave it.
    asked = replace(
        stored,
        state="pending",
        node_pool=stored.node_pool if with_home or "nodepool" in named else "",
        plugin_id=stored.plugin_id if "pluginid" in named else "",
        create_index=0,
        modify_index=0,
    )
    value = {"Volume": asked, "Warnings": "", "Index": stored.modify_index}
    return call.answer(value, index=stored.modify_index)


async def delete(call: ApiCall) -> Response:
    volume_id = call.path["volume_id"]
    try:
        index = await delete_host_volume(call.context, call.namespace, volume_id)
    except NotFoundError as error:
        raise RefusedError(f"no such volume: {volume_id}") from error
    return call.answer({}, index=index)


async def claims(call: ApiCall) -> Response:
    page, wanted, prefix = PageRequest.of(call), call.query, call.id_prefix()

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = [
            each
            for each in call.visible(snapshot.volume_claims.all(call.namespaces))
            if wanted.get("job_id", each.job_id) == each.job_id
            and wanted.get("task_group", each.task_group_name) == each.task_group_name
            and wanted.get("volume_name", each.volume_name) == each.volume_name
            and each.id.startswith(prefix)
        ]
        return page.apply(found, by_index)

    return await answer_list(call, ("volume_claims",), read)


async def delete_claim(call: ApiCall) -> Response:
    try:
        index = await delete_volume_claim(call.context, call.path["claim_id"])
    except NotFoundError as error:
        raise RefusedError("task group volume claim does not exist") from error
    return call.answer({}, index=index)


ENDPOINTS = [
    endpoint("/v1/volumes", get=list_volumes),
    endpoint("/v1/volumes/claims", get=claims),
    endpoint("/v1/volumes/claim/{claim_id}", delete=delete_claim),
    endpoint("/v1/volume/host/create", put=create),
    endpoint("/v1/volume/host/register", put=register),
    endpoint("/v1/volume/host/{volume_id}", get=read_volume, delete=delete),
    endpoint("/v1/volume/host/{volume_id}/delete", delete=delete),
]
