"""The agent itself: what it is, its peers, its health."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.errors import InvalidInputError

_CORE = "_core"
"""Nomad's name for cleaning up: the leader does it here, so no worker can be without it."""
_WORKERS = go_json.Fields(
    "api.AgentSchedulerWorkerConfigRequest",
    {
        "num_schedulers": go_json.whole("int"),
        "enabled_schedulers": go_json.texts,
        "paused": go_json.flag,
    },
)
_SCHEDULERS = ("service", "batch", "system", "sysbatch")


async def self_(call: ApiCall) -> Response:
    server = call.api.server
    members = server.members()
    member = next(each for each in members if each["Tags"]["id"] == server.server_id)
    stats = {name: dict(values) for name, values in server.stats().items()}
    if call.api.local_node is not None:
        stats["client"] = {
            "node_id": call.api.local_node.node_id(),
            **call.api.local_node.stats(),
        }
    value = {"config": server.config(), "member": member, "stats": stats}
    return call.answer(value)


async def members(call: ApiCall) -> Response:
    server = call.api.server
    value = {
        "ServerName": server.name,
        "ServerRegion": server.region,
        "ServerDC": server.datacenter,
        "Members": server.members(),
    }
    return call.answer(value)


async def servers(call: ApiCall) -> Response:
    return call.answer(list(call.api.server.peer_addresses()))


async def set_servers(call: ApiCall) -> Response:
    """Takes the addresses of servers that the agent knows; agents learn the others from these."""
    addresses = call.request.query_params.getlist("address")
    if not addresses:
        raise InvalidInputError("missing server address")
    known = call.api.server.peer_addresses()
    if strangers := [each for each in addresses if each not in known]:
        raise InvalidInputError(
            f"cannot use {strangers[0]} as a server: it is no member of the cluster; "
            "agents find the members by themselves"
        )
    return call.empty()


async def export_log(call: ApiCall) -> Response:
    """Refuses: logs are kept by what starts the agent."""
    if not any(call.query.get(name) for name in ("service_name", "on_disk")):
        raise InvalidInputError("Either -service-name or -on-disk must be set")
    raise InvalidInputError(
        "cannot export the log: the agent writes it to its standard output; ask what keeps that "
        "(journalctl), or follow /v1/agent/monitor"
    )


async def health(call: ApiCall) -> Response:
    kind = call.query.get("type")
    value: dict[str, Any] = {}
    if kind in (None, "", "server"):
        led = bool(call.api.server.leader_address())
        value["server"] = {"ok": led, "message": "ok" if led else "No cluster leader"}
    if kind in (None, "", "client") and call.api.local_node is not None:
        value["client"] = {"ok": True, "message": "ok"}
    well = all(each["ok"] for each in value.values())
    return call.answer(value, status=200 if well else 500)


async def schedulers(call: ApiCall) -> Response:
    server = call.api.server
    workers = [*await server.schedulers()]
    return call.answer({"server_id": _full_name(call), "schedulers": workers})


async def schedulers_config(call: ApiCall) -> Response:
    server = call.api.server
    count, types = server.scheduler_workers()
    value = {
        "server_id": _full_name(call),
        "num_schedulers": count,
        "enabled_schedulers": [*types, _CORE],
    }
    if server.schedulers_paused():
        value["paused"] = True
    return call.answer(value)


def _full_name(call: ApiCall) -> str:
    return f"{call.api.server.name}.{call.api.server.region}"


async def set_schedulers_config(call: ApiCall) -> Response:
    """Sets how many workers this server runs, for which types of job, and whether they are
    paused."""
    server = call.api.server
    body = await call.fields(_WORKERS)
    count, types = server.scheduler_workers()
    paused = body.get("paused", server.schedulers_paused())
    count = body.get("num_schedulers", count)
    types = body.get("enabled_schedulers", [*types, _CORE])
    if not {_CORE} <= set(types) <= {*_SCHEDULERS, _CORE}:
        raise InvalidInputError("Invalid request")
    wanted = [name for name in types if name != _CORE]
    await server.set_scheduler_workers(count, wanted)
    if paused != server.schedulers_paused():
        await server.pause_schedulers(paused)
    return await schedulers_config(call)


async def join(call: ApiCall) -> Response:
    """Makes servers known to each other; a server without a cluster joins that of the others."""
    addresses = call.request.query_params.getlist("address")
    if not addresses:
        raise InvalidInputError("missing address to join")
    joined, problem = await call.api.cluster.join(addresses)
    return call.answer({"num_joined": joined, "error": problem, "warning": ""})


async def force_leave(call: ApiCall) -> Response:
    """Removes a server from the cluster, by its name; any server may be asked."""
    node = call.query.get("node")
    if not node:
        raise InvalidInputError("missing node to force leave")
    await call.api.cluster.force_leave(node)
    return call.empty()


ENDPOINTS = [
    endpoint("/v1/agent/self", get=self_),
    endpoint("/v1/agent/members", get=members),
    endpoint("/v1/agent/servers", get=servers, put=set_servers),
    endpoint("/v1/agent/monitor/export", get=export_log),
    endpoint("/v1/agent/health", get=health),
    endpoint("/v1/agent/schedulers", get=schedulers),
    endpoint("/v1/agent/schedulers/config", get=schedulers_config, put=set_schedulers_config),
    endpoint("/v1/agent/join", put=join),
    endpoint("/v1/agent/force-leave", put=force_leave),
]
