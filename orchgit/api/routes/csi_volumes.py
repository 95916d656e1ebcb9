"""CSI volumes and their snapshots, in Nomad's shapes. Secrets and mount flags are never shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json, nomad_json
from orchgit.api.shapes.stubs import alloc_stub
from orchgit.errors import InvalidInputError, NotFoundError, RefusedError
from orchgit.model.csi import WRITE, CsiTopology, CsiTopologyRequest, CsiVolume
from orchgit.model.volume import MountOptions
from orchgit.services.csi.plugins import CsiPlugin, plugins_of
from orchgit.services.csi.volumes import CsiVolumeUseCases
from orchgit.state.snapshot import Snapshot
from orchgit.whole_number import whole_number

_HIDDEN = "[REDACTED]"
_TABLES = ("csi_volumes", "nodes", "allocations")
_NEVER_WRITTEN = 1
"""The index of a table before its first change. Clients know the list as having no index then."""
_MOST_ENTRIES = (1 << 31) - 1
"""The protocol of CSI counts in 32 bits."""

_VOLUMES = go_json.Fields(
    "structs.CSIVolumeRegisterRequest", {"Volumes": go_json.trees("structs.CSIVolume")}
)
_SNAPSHOT = go_json.Fields(
    "structs.CSISnapshot",
    {
        "SourceVolumeID": go_json.text,
        "Name": go_json.text,
        "Secrets": go_json.text_map,
        "Parameters": go_json.text_map,
    },
)
_SNAPSHOTS = go_json.Fields(
    "structs.CSISnapshotCreateRequest", {"Snapshots": go_json.structs(_SNAPSHOT)}
)


def _use_cases(call: ApiCall) -> CsiVolumeUseCases:
    return CsiVolumeUseCases(call.services.csi)


async def list_volumes(call: ApiCall) -> Response:
    """Filters as Nomad has them: prefix, plugin_id, node_id."""
    page, query = PageRequest.of(call), call.query

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        plugins = plugins_of(snapshot)
        found = [
            each
            for each in call.visible(snapshot.csi_volumes.all(call.namespaces))
            if each.id.startswith(query.get("prefix", ""))
            and query.get("plugin_id", each.plugin_id) in ("", each.plugin_id)
            and query.get("node_id", "") in ("", *(claim.node_id for claim in each.claims))
        ]
        chosen, headers = page.apply(found, lambda each: each.id)
        return [_stub(each, plugins.get(each.plugin_id)) for each in chosen], headers

    response = await answer_list(call, _TABLES, read)
    if call.context.state.store.watch.index(("csi_volumes",)) <= _NEVER_WRITTEN:
        response.headers["X-Nomad-Index"] = "0"
    return response


async def read_volume(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        volume = snapshot.csi_volumes.get(call.namespace, call.path["volume_id"])
        if volume is None:
            return None
        return _whole(volume, plugins_of(snapshot).get(volume.plugin_id), snapshot)

    return await answer_object(call, _TABLES, read, "volume not found")


async def register(call: ApiCall) -> Response:
    index = 0
    for volume in await _bodies(call):
        index = await _use_cases(call).register(volume)
    return call.answer({}, index=index)


async def create(call: ApiCall) -> Response:
    made = [await _use_cases(call).create(volume) for volume in await _bodies(call)]
    plugins = await call.services.csi.plugins()
    with call.services.context.snapshot() as snapshot:
        answer = [_whole(each, plugins.get(each.plugin_id), snapshot) for each in made]
    return call.answer({"Volumes": answer})


async def delete(call: ApiCall) -> Response:
    secrets = _secrets(call)
    use_cases = _use_cases(call)
    try:
        index = await use_cases.delete(call.namespace, call.path["volume_id"], secrets)
    except NotFoundError as error:
        raise RefusedError(str(error)) from error
    return call.answer({}, index=index)


async def deregister(call: ApiCall) -> Response:
    force = call.query.get("force", "") in ("true", "1")
    try:
        index = await _use_cases(call).deregister(call.namespace, call.path["volume_id"], force)
    except NotFoundError as error:
        raise RefusedError(str(error)) from error
    return call.answer({}, index=index)


async def detach(call: ApiCall) -> Response:
    node_id = call.query.get("node", "")
    if not node_id:
        raise InvalidInputError("detach requires node ID")
    try:
        await _use_cases(call).detach(call.namespace, call.path["volume_id"], node_id)
    except NotFoundError as error:
        raise RefusedError(str(error)) from error
    return call.answer({})


async def external_volumes(call: ApiCall) -> Response:
    """The volumes that the storage provider has, registered or not."""
    reply = await _use_cases(call).call(
        await _known_plugin_id(call), "SupportsListVolumes", "ListVolumes", _paging(call)
    )
    volumes = [
        {
            "ExternalID": each["volume"]["volume_id"],
            "CapacityBytes": each["volume"]["capacity_bytes"],
            "VolumeContext": each["volume"]["volume_context"],
            "CloneID": "",
            "SnapshotID": "",
            "PublishedExternalNodeIDs": (each.get("status") or {}).get("published_node_ids", []),
            "IsAbnormal": False,
            "Status": "",
        }
        for each in reply.get("entries", ())
    ]
    return call.answer({"Volumes": volumes, "NextToken": reply.get("next_token", "")})


async def list_snapshots(call: ApiCall) -> Response:
    request = {**_paging(call), "secrets": _secrets(call)}
    plugin_id = await _known_plugin_id(call)
    reply = await _use_cases(call).call(
        plugin_id, "SupportsListSnapshots", "ListSnapshots", request
    )
    snapshots = [_snapshot(each["snapshot"], plugin_id) for each in reply["entries"]]
    return call.answer({"Snapshots": snapshots, "NextToken": reply.get("next_token", "")})


async def create_snapshots(call: ApiCall) -> Response:
    """Each `SourceVolumeID` is a volume of the namespace."""
    use_cases, made = _use_cases(call), []
    body = await call.fields(_SNAPSHOTS)
    if not body.get("Snapshots"):
        raise InvalidInputError("cannot make a snapshot: the body has no Snapshots")
    for wanted in body["Snapshots"]:
        source_id = wanted.get("SourceVolumeID", "")
        volume = use_cases.external_volume(call.namespace, source_id)
        request = {
            "source_volume_id": volume.external_id,
            "name": wanted.get("Name") or source_id,
            "secrets": {**(volume.secrets or {}), **wanted.get("Secrets", {})},
            "parameters": wanted.get("Parameters", {}),
        }
        reply = await use_cases.call(
            volume.plugin_id, "SupportsCreateDeleteSnapshot", "CreateSnapshot", request
        )
        made.append({**_snapshot(reply["snapshot"], volume.plugin_id), "SourceVolumeID": source_id})
    return call.answer({"Snapshots": made})


async def delete_snapshot(call: ApiCall) -> Response:
    request = {"snapshot_id": call.query.get("snapshot_id", ""), "secrets": _secrets(call)}
    if not request["snapshot_id"]:
        raise InvalidInputError("missing snapshot ID")
    await _use_cases(call).call(
        _plugin_id(call), "SupportsCreateDeleteSnapshot", "DeleteSnapshot", request
    )
    return call.answer({})


# -- reading requests --------------------------------------------------------------------------


async def _bodies(call: ApiCall) -> list[CsiVolume]:
    trees = (await call.fields(_VOLUMES)).get("Volumes")
    if not trees:
        raise InvalidInputError("cannot store a volume: the body has no Volumes")
    volumes = []
    for tree in trees:
        volume = nomad_json.convert(tree, CsiVolume, "Volumes.")
        if call.path.get("volume_id", volume.id) != volume.id:
            raise InvalidInputError("volume ID in the body and in the address are not the same")
        chosen = call.query.get("namespace")
        volume.namespace = call.namespace if chosen else volume.namespace or call.namespace
        volume.claims, volume.capacity = [], 0
        volumes.append(volume)
    return volumes


async def _known_plugin_id(call: ApiCall) -> str:
    """Returns the plugin that a list asks. Raises RefusedError for one that is not there."""
    plugin_id = call.query.get("plugin_id", "")
    if plugin_id not in await call.services.csi.plugins():
        raise RefusedError("no such plugin")
    return plugin_id


def _plugin_id(call: ApiCall) -> str:
    plugin_id = call.query.get("plugin_id", "")
    if not plugin_id:
        raise InvalidInputError("missing plugin ID")
    return plugin_id


def _secrets(call: ApiCall) -> dict[str, str]:
    """Reads `NAME=VALUE,NAME=VALUE` of the query, or of the header."""
    text = call.query.get("secrets", "") or call.header(b"x-nomad-csi-secrets") or ""
    pairs = [each.partition("=") for each in text.split(",") if each]
    if not all(name and equals for name, equals, _ in pairs):
        raise InvalidInputError("cannot read the secrets: they are not NAME=VALUE,NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _paging(call: ApiCall) -> dict[str, Any]:
    entries = whole_number(call.query.get("per_page", "0") or "0")
    if entries is None or not 0 <= entries <= _MOST_ENTRIES:
        raise InvalidInputError("failed to parse value of per_page")
    return {"max_entries": entries, "starting_token": call.query.get("next_token", "")}


# -- shapes ------------------------------------------------------------------------------------


def _snapshot(found: Mapping[str, Any], plugin_id: str) -> dict[str, Any]:
    return {
        "ID": found["snapshot_id"],
        "ExternalSourceVolumeID": found["source_volume_id"],
        "SourceVolumeID": "",
        "Name": "",
        "PluginID": plugin_id,
        "SizeBytes": found["size_bytes"],
        "CreateTime": (found.get("creation_time") or {}).get("seconds", 0),
        "IsReady": found["ready_to_use"],
    }


def _stub(volume: CsiVolume, plugin: CsiPlugin | None) -> dict[str, Any]:
    writers = [each for each in volume.claims if each.mode == WRITE]
    return {
        "ID": volume.id,
        "Namespace": volume.namespace,
        "Name": volume.name,
        "ExternalID": volume.external_id,
        "Topologies": _topologies(volume.topologies),
        "AccessMode": volume.access_mode,
        "AttachmentMode": volume.attachment_mode,
        "CurrentReaders": len(volume.claims) - len(writers),
        "CurrentWriters": len(writers),
        "PluginID": volume.plugin_id,
        "Provider": plugin.provider if plugin else "",
        "ResourceExhausted": None,
        **_health(plugin),
        "CreateIndex": volume.create_index,
        "CreateTime": volume.create_time_ns,
        "ModifyIndex": volume.modify_index,
        "ModifyTime": volume.modify_time_ns,
    }


def _health(plugin: CsiPlugin | None) -> dict[str, Any]:
    nodes = plugin.healthy(plugin.nodes) if plugin else 0
    controllers = plugin.healthy(plugin.controllers) if plugin else 0
    required = plugin.controller_required if plugin else False
    return {
        "Schedulable": nodes > 0 and (controllers > 0 or not required),
        "ControllerRequired": required,
        "ControllersHealthy": controllers,
        "ControllersExpected": len(plugin.controllers) if plugin else 0,
        "NodesHealthy": nodes,
        "NodesExpected": len(plugin.nodes) if plugin else 0,
    }


def _whole(volume: CsiVolume, plugin: CsiPlugin | None, snapshot: Snapshot) -> dict[str, Any]:
    found = {each.alloc_id: snapshot.allocations.get(each.alloc_id) for each in volume.claims}
    claims = {
        mode: {
            claim.alloc_id: {
                "AllocationID": claim.alloc_id,
                "NodeID": claim.node_id,
                "ExternalNodeID": claim.external_node_id,
                "Mode": int(claim.mode == WRITE),
                "AccessMode": claim.access_mode,
                "AttachmentMode": claim.attachment_mode,
                "State": 0,
            }
            for claim in volume.claims
            if (claim.mode == WRITE) == (mode == "Write")
        }
        for mode in ("Read", "Write")
    }
    return {
        **_stub(volume, plugin),
        "MountOptions": _mount_options(volume.mount_options),
        "Secrets": dict.fromkeys(volume.secrets or {}, _HIDDEN),
        "Parameters": volume.parameters,
        "Context": volume.context,
        "Capacity": volume.capacity,
        "RequestedCapacityMin": volume.requested_capacity_min,
        "RequestedCapacityMax": volume.requested_capacity_max,
        "RequestedCapabilities": [
            nomad_json.tree(each) for each in volume.requested_capabilities or ()
        ],
        "RequestedTopologies": _requested(volume.requested_topologies),
        "CloneID": volume.clone_id,
        "SnapshotID": volume.snapshot_id,
        "ReadAllocs": {id_: None for id_ in claims["Read"]},
        "WriteAllocs": {id_: None for id_ in claims["Write"]},
        "ReadClaims": claims["Read"],
        "WriteClaims": claims["Write"],
        "PastClaims": {},
        "Allocations": [alloc_stub(each) for each in found.values() if each is not None],
        "ProviderVersion": plugin.version if plugin else "",
    }


def _mount_options(options: MountOptions | None) -> dict[str, Any] | None:
    """Mount flags may hold passwords, so that only their presence is shown."""
    if options is None:
        return None
    flags = [_HIDDEN] if options.mount_flags else None
    return {"FSType": options.fs_type, "MountFlags": flags}


def _topologies(found: list[CsiTopology] | None) -> list[dict[str, Any]]:
    return [{"Segments": each.segments or {}} for each in found or ()]


def _requested(wanted: CsiTopologyRequest | None) -> dict[str, Any] | None:
    if wanted is None:
        return None
    return {
        "Required": _topologies(wanted.required),
        "Preferred": _topologies(wanted.preferred),
    }


ENDPOINTS = [
    endpoint("/v1/volume/csi/{volume_id}", get=read_volume, put=register, delete=deregister),
    endpoint("/v1/volume/csi/{volume_id}/detach", delete=detach),
    endpoint("/v1/volume/csi/{volume_id}/create", put=create),
    endpoint("/v1/volume/csi/{volume_id}/delete", delete=delete),
    endpoint("/v1/volumes/external", get=external_volumes),
    endpoint(
        "/v1/volumes/snapshot", get=list_snapshots, put=create_snapshots, delete=delete_snapshot
    ),
]
