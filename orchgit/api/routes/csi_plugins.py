"""CSI plugins: what the nodes that run them say of them, put together by plugin."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.api.shapes.stubs import alloc_stub
from orchgit.errors import InvalidInputError
from orchgit.services.csi.plugins import CsiPlugin, plugins_of
from orchgit.state.snapshot import Snapshot


async def list_plugins(call: ApiCall) -> Response:
    if call.query.get("type", "csi") not in ("", "csi"):
        raise InvalidInputError("resource not found")
    page, prefix = PageRequest.of(call), call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = [each for each in plugins_of(snapshot).values() if each.id.startswith(prefix)]
        chosen, headers = page.apply(found, lambda each: each.id)
        return [_stub(each) for each in chosen], headers

    return await answer_list(call, ("nodes",), read)


async def read_plugin(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        plugin = plugins_of(snapshot).get(call.path["plugin_id"])
        if plugin is None:
            return None
        ids = sorted({*plugin.alloc_ids()})
        allocations = [found for id_ in ids if (found := snapshot.allocations.get(id_)) is not None]
        return {
            **_stub(plugin),
            "Version": plugin.version,
            "Controllers": plugin.controllers,
            "Nodes": plugin.nodes,
            "Allocations": [alloc_stub(each) for each in allocations],
            "ControllerJobs": {},
            "NodeJobs": {},
        }

    return await answer_object(call, ("nodes", "allocations"), read, "plugin not found")


def _stub(plugin: CsiPlugin) -> dict[str, Any]:
    return {
        "ID": plugin.id,
        "Provider": plugin.provider,
        "ControllerRequired": plugin.controller_required,
        "ControllersHealthy": plugin.healthy(plugin.controllers),
        "ControllersExpected": len(plugin.controllers),
        "NodesHealthy": plugin.healthy(plugin.nodes),
        "NodesExpected": len(plugin.nodes),
        "CreateIndex": plugin.create_index,
        "ModifyIndex": plugin.modify_index,
    }


ENDPOINTS = [
    endpoint("/v1/plugins", get=list_plugins),
    endpoint("/v1/plugin/csi/{plugin_id}", get=read_plugin),
]
