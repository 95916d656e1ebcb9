"""Takes the reports in which an agent says how its allocations are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchgit.errors import NotFoundError, RefusedError
from orchgit.model.allocation import Allocation, ClientStatus, status_after_report
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import JobType
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocs
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.services.nodes.registration import OUT_OF_TOUCH
from orchgit.state.snapshot import Snapshot

_RETRY = EvalTrigger.RETRY_FAILED_ALLOC
_NEVER_RETRIED = (JobType.SYSTEM, JobType.SYSBATCH)
"""Jobs without a reschedule policy: a failed allocation alone does not make them be evaluated."""


async def update_allocs(
    context: UseCaseContext, node_id: str, updates: Sequence[AllocClientUpdate]
) -> int:
    """Stores an agent's reports and returns the index at which they were applied.

    An empty report counts too: it lets a node that missed heartbeats become ready. Reports of other
    nodes' allocations, or of collected ones, are dropped. Raises RefusedError while the node is
    down or disconnected (invariant 5), NotFoundError for an unknown node.
    """
    with context.snapshot() as snapshot:
        node = snapshot.nodes.get(node_id)
        if node is None:
            raise NotFoundError(f"cannot take reports of node {node_id}: it is unknown")
        if node.status in OUT_OF_TOUCH:
            raise RefusedError(
                f"cannot take reports of node {node_id} while it is {node.status}; heartbeat first"
            )
        known = [
            (
                msgspec.structs.replace(
                    update,
                    client_status=status_after_report(
                        allocation.client_status, update.client_status
                    ),
                ),
                allocation,
            )
            for update in updates
            if (allocation := snapshot.allocations.get(update.alloc_id)) is not None
            and allocation.node_id == node_id
        ]
        evaluations = evaluations_for_reports(context, snapshot, known)
    command = UpdateAllocs(
        now_ns=context.now_ns(),
        node_id=node_id,
        updates=[update for update, _ in known],
        evaluations=evaluations,
    )
    applied = await context.propose_newest(command, command.earlier_form)
    return applied.index


def evaluations_for_reports(
    context: UseCaseContext,
    snapshot: Snapshot,
    reports: Sequence[tuple[AllocClientUpdate, Allocation]],
) -> list[Evaluation]:
    """Returns one evaluation for each job that must replace a failed allocation or settle a
    reconnected one."""
    triggers: dict[tuple[str, str], str] = {}
    for update, allocation in reports:
        trigger = trigger_of_report(update, allocation)
        if trigger:
            triggers.setdefault((allocation.namespace, allocation.job_id), trigger)
    found = ((snapshot.jobs.get(*key), trigger) for key, trigger in triggers.items())
    return [
        evaluation_for_job(context, job, trigger)
        for job, trigger in found
        if job is not None
        and not job.stop
        and (job.type not in _NEVER_RETRIED or trigger != _RETRY)
    ]


def trigger_of_report(update: AllocClientUpdate, allocation: Allocation) -> str:
    """Returns why this report makes the job be evaluated; "" where it does not."""
    if allocation.client_status == ClientStatus.UNKNOWN:
        return EvalTrigger.RECONNECT
    newly_failed = (
        update.client_status == ClientStatus.FAILED
        and allocation.client_status != ClientStatus.FAILED
    )
    if newly_failed and not allocation.is_server_terminal and not allocation.followup_eval_id:
        return EvalTrigger.RETRY_FAILED_ALLOC
    return ""
