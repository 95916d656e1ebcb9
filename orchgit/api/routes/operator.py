"""Status, regions, and what operators read and set about the cluster as a whole."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.blocking import blocking_read
from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.http_status import MethodNotAllowedError
from orchgit.model.job import Job
from orchgit.model.operator import SchedulerConfig
from orchgit.services.cluster.scheduler_config import set_scheduler_config
from orchgit.state.snapshot import Snapshot


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
        is_one_row=True,
    )
    value = {
        "SchedulerConfig": config,
    }
    return call.answer_query(value, index)


async def set_scheduler(call: ApiCall) -> Response:
    body = nomad_json.decode_tree(await call.body(), "api.SchedulerConfiguration")
    config = nomad_json.convert(body, SchedulerConfig)
    if "cas" not in call.query:
        nomad_json.check_names_any(body, SchedulerConfig, "the scheduler's configuration")
    expected = call.number("cas") if "cas" in call.query else None
    index, updated = await set_scheduler_config(call.context, config, expected)
    return call.answer({"Updated": updated, "Index": index}, index=index)


async def license_(call: ApiCall) -> Response:
    """Answers that there is no license."""
    return call.empty(status=204)


async def set_license(call: ApiCall) -> Response:
    return text_response("Nomad Enterprise only endpoint", 501)


async def collect_garbage(call: ApiCall) -> Response:
    await call.services.collect_garbage()
    with call.context.snapshot() as snapshot:
        return call.empty(index=snapshot.index)


async def reconcile_summaries(call: ApiCall) -> Response:
    """Succeeds: summaries are derived when they are read, and cannot be wrong."""
    return call.empty()


async def upgrade_check(call: ApiCall) -> Response:
    """Answers which jobs use Vault without an identity for it; nodes here are never too old."""
    if call.path["check"] != "vault-workload-identity":
        return text_response("resource not found", 404)

    def read(snapshot: Snapshot) -> tuple[list[Job], int]:
        found = [job for job in snapshot.jobs.all(None) if _lacks_vault_identity(job)]
        return found, snapshot.table_indexes.newest("jobs")

    found, index = await blocking_read(call, ("jobs",), read)
    stubs = [{"ID": job.id, "Namespace": job.namespace, "Type": job.type} for job in found]
    value = {"JobsWithoutVaultIdentity": stubs, "OutdatedNodes": [], "VaultTokens": None}
    return call.answer_query(value, index)


def _lacks_vault_identity(job: Job) -> bool:
    return any(
        task.vault is not None
        and not any(str(each.get("Name")).startswith("vault_") for each in task.identities or ())
        for group in job.task_groups
        for task in group.tasks
    )


async def utilization(call: ApiCall) -> Response:
    """Refuses as Nomad's community edition does."""
    raise MethodNotAllowedError


ENDPOINTS = [
    endpoint("/v1/status/leader", get=leader),
    endpoint("/v1/status/peers", get=peers),
    endpoint("/v1/regions", get=regions),
    endpoint(
        "/v1/operator/scheduler/configuration", get=scheduler_configuration, put=set_scheduler
    ),
    endpoint("/v1/operator/license", get=license_, put=set_license),
    endpoint("/v1/operator/utilization", get=utilization, put=utilization),
    endpoint("/v1/operator/upgrade-check/{check}", get=upgrade_check),
    endpoint("/v1/system/gc", put=collect_garbage),
    endpoint("/v1/system/reconcile/summaries", put=reconcile_summaries),
]
