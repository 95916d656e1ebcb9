"""Status, regions, and what operators read and set about the cluster as a whole."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api import nomad_json
from orchgit.api.blocking import blocking_read
from orchgit.api.call import Call
from orchgit.api.routing import endpoint
from orchgit.model.operator import SchedulerConfig
from orchgit.services.scheduler_config import set_scheduler_config

AUTOPILOT: dict[str, Any] = {
    "CleanupDeadServers": True,
    "LastContactThreshold": "200ms",
    "MaxTrailingLogs": 250,
    "MinQuorum": 0,
    "ServerStabilizationTime": "10s",
    "EnableRedundancyZones": False,
    "DisableUpgradeMigration": False,
    "EnableCustomUpgrades": False,
    "CreateIndex": 1,
    "ModifyIndex": 1,
}


async def leader(call: Call) -> Response:
    return call.answer(call.context.server.leader_address())


async def peers(call: Call) -> Response:
    return call.answer(list(call.context.server.peer_addresses()))


async def regions(call: Call) -> Response:
    return call.answer([call.context.server.region])


async def raft_configuration(call: Call) -> Response:
    server = call.context.server
    with call.world.snapshot() as snapshot:
        index = snapshot.index
    leader_address = server.leader_address()
    value = {
        "Index": index,
        "Servers": [
            {
                "ID": record.id,
                "Node": f"{record.name}.{record.region}",
                "Address": record.rpc_address,
                "Leader": record.rpc_address == leader_address,
                "Voter": True,
                "RaftProtocol": "3",
            }
            for record in server.servers()
        ],
    }
    return call.answer(value)


async def autopilot_configuration(call: Call) -> Response:
    return call.answer(AUTOPILOT)


async def set_autopilot(call: Call) -> Response:
    """Members come from the config, so there is nothing for autopilot to change: with a `cas`
    that is not the current index the answer is false, as in Nomad."""
    await call.body()
    wanted = call.query.get("cas")
    return call.answer(wanted is None or wanted == str(AUTOPILOT["ModifyIndex"]))


async def autopilot_health(call: Call) -> Response:
    server = call.context.server
    with call.world.snapshot() as snapshot:
        index = snapshot.index
    servers = [
        {
            "ID": member["Tags"].get("id", member["Name"]),
            "Name": member["Name"],
            "Address": address,
            "SerfStatus": member["Status"],
            "Version": member["Tags"].get("build", ""),
            "Leader": address == server.leader_address(),
            "LastContact": "0s",
            "LastTerm": 1,
            "LastIndex": index,
            "Healthy": True,
            "Voter": True,
            "StableSince": nomad_json.ZERO_TIME,
        }
        for member, address in zip(server.members(), server.peer_addresses(), strict=False)
    ]
    value = {
        "Healthy": bool(server.leader_address()),
        "FailureTolerance": max(0, (len(servers) - 1) // 2),
        "Servers": servers,
        "Leader": next((each["ID"] for each in servers if each["Leader"]), ""),
        "Voters": [each["ID"] for each in servers],
    }
    return call.answer(value)


async def scheduler_configuration(call: Call) -> Response:
    config, index = await blocking_read(
        call,
        ("scheduler_config",),
        lambda snapshot: (snapshot.scheduler_config(), snapshot.table_index("scheduler_config")),
    )
    value = {
        "SchedulerConfig": config,
        "Index": index,
        "LastContact": 0,
        "KnownLeader": True,
        "NextToken": "",
    }
    return call.answer(value, index=index, read=True)


async def set_scheduler(call: Call) -> Response:
    config = nomad_json.decode(await call.body(), SchedulerConfig)
    expected = call.number("cas") if "cas" in call.query else None
    index, updated = await set_scheduler_config(call.world, config, expected)
    return call.answer({"Updated": updated, "Index": index}, index=index)


async def license_(call: Call) -> Response:
    """There is no license to show."""
    return call.empty(status=204)


async def collect_garbage(call: Call) -> Response:
    await call.context.services.collect_garbage()
    with call.world.snapshot() as snapshot:
        return call.empty(index=snapshot.index)


async def reconcile_summaries(call: Call) -> Response:
    """Summaries are derived when read; they cannot be wrong."""
    return call.empty()


ENDPOINTS = [
    endpoint("/v1/status/leader", get=leader),
    endpoint("/v1/status/peers", get=peers),
    endpoint("/v1/regions", get=regions),
    endpoint("/v1/operator/raft/configuration", get=raft_configuration),
    endpoint(
        "/v1/operator/autopilot/configuration", get=autopilot_configuration, put=set_autopilot
    ),
    endpoint("/v1/operator/autopilot/health", get=autopilot_health),
    endpoint(
        "/v1/operator/scheduler/configuration", get=scheduler_configuration, put=set_scheduler
    ),
    endpoint("/v1/operator/license", get=license_),
    endpoint("/v1/system/gc", put=collect_garbage),
    endpoint("/v1/system/reconcile/summaries", put=reconcile_summaries),
]
