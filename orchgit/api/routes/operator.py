"""Status, regions, and what operators read and set about the cluster as a whole."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.blocking import blocking_read
from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.model.operator import SchedulerConfig
from orchgit.services.cluster.scheduler_config import set_scheduler_config


async def leader(call: ApiCall) -> Response:
    return call.answer(call.api.server.leader_address())


async def peers(call: ApiCall) -> Response:
    return call.answer(list(call.api.server.peer_addresses()))


async def regions(call: ApiCall) -> Response:
    return call.answer([call.api.server.region])


async def scheduler_configuration(call: ApiCall) -> Response:
    config, index = await blocking_read(
        call,
        ("scheduler_config",),
        lambda snapshot: (
            snapshot.scheduler_config.get(),
            snapshot.table_indexes.newest("scheduler_config"),
        ),
    )
    value = {
        "SchedulerConfig": config,
    }
    return call.answer_query(value, index)


async def set_scheduler(call: ApiCall) -> Response:
    config = nomad_json.decode(await call.body(), SchedulerConfig)
    expected = call.number("cas") if "cas" in call.query else None
    index, updated = await set_scheduler_config(call.context, config, expected)
    return call.answer({"Updated": updated, "Index": index}, index=index)


async def license_(call: ApiCall) -> Response:
    """Answers that there is no license."""
    return call.empty(status=204)


async def collect_garbage(call: ApiCall) -> Response:
    await call.services.collect_garbage()
    with call.context.snapshot() as snapshot:
        return call.empty(index=snapshot.index)


async def reconcile_summaries(call: ApiCall) -> Response:
    """Succeeds: summaries are derived when they are read, and cannot be wrong."""
    return call.empty()


ENDPOINTS = [
    endpoint("/v1/status/leader", get=leader),
    endpoint("/v1/status/peers", get=peers),
    endpoint("/v1/regions", get=regions),
    endpoint(
        "/v1/operator/scheduler/configuration", get=scheduler_configuration, put=set_scheduler
    ),
    endpoint("/v1/operator/license", get=license_),
    endpoint("/v1/system/gc", put=collect_garbage),
    endpoint("/v1/system/reconcile/summaries", put=reconcile_summaries),
]
