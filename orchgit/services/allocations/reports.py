"""Takes the reports in which an agent says how its allocations are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchgit.errors import NotFoundError, NotUnderstoodError, RefusedError
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


class NodeReports:
    """Takes the reports of one node for as long as its agent stays connected."""

    def __init__(self, context: UseCaseContext, node_id: str) -> None:
        self._context = context
        self._node_id = node_id
        self._left_out: dict[str, AllocClientUpdate] = {}
        """By allocation: its last report, if a part of it was not stored (`store_left_out`)."""

    async def take(self, updates: Sequence[AllocClientUpdate]) -> int:
        """Stores reports and returns the index at which they were applied.

        An empty report counts too: it lets a node that missed heartbeats become ready. Reports of
        other nodes' allocations, or of collected ones, are dropped. Raises RefusedError while the
        node is down or disconnected (invariant 5), NotFoundError for an unknown node.
        """
        command = _command(self._context, self._node_id, updates)
        left_out: dict[str, AllocClientUpdate] = {}
        try:
            applied = await self._context.propose(command)
        except NotUnderstoodError:
            applied = await self._context.propose(command.earlier_form())
            left_out = {one.alloc_id: one for one in updates if one.driver_addresses}
        for update in updates:
            self._left_out.pop(update.alloc_id, None)
        self._left_out |= left_out
        return applied.index

    async def store_left_out(self) -> None:
        """Stores the addresses that `take` left out while a server of an earlier version was a
        member, if every member understands them now. The agent does not report them again by
        itself."""
        if not self._left_out:
            return
        updates, self._left_out = self._left_out, {}
        try:
            await self._context.propose(
                _command(self._context, self._node_id, list(updates.values()))
            )
        except NotUnderstoodError:
            self._left_out = updates


def _command(
    context: UseCaseContext, node_id: str, updates: Sequence[AllocClientUpdate]
) -> UpdateAllocs:
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
    return UpdateAllocs(
        now_ns=context.now_ns(),
        node_id=node_id,
        updates=[update for update, _ in known],
        evaluations=evaluations,
    )


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
