"""Counts of placed, healthy and unhealthy allocations, which deployments keep by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.plan import Placements
from orchgit.state.tables.allocation_rows import AllocationRow
from orchgit.state.transaction import WriteTxn


@dataclass(slots=True)
class GroupChange:
    """What one entry changes of the counts of one group in one deployment."""

    placed: int = 0
    healthy: int = 0
    unhealthy: int = 0
    canaries: tuple[str, ...] = ()
    healthy_at: datetime | None = None
    """When the newest healthy allocation became healthy."""


class DeploymentCounts:
    """Collects what one entry changes, then writes each deployment once."""

    def __init__(self) -> None:
        self._changes: defaultdict[str, defaultdict[str, GroupChange]]
        self._changes = defaultdict(lambda: defaultdict(GroupChange))

    def add_placements(self, placements: Placements) -> None:
        if not placements.deployment_id:
            return
        change = self._changes[placements.deployment_id][placements.task_group]
        change.placed += len(placements)
        change.canaries += tuple(placements.alloc_ids[row] for row in placements.canary_rows)

    def add_changes(self, records: Iterable[AllocationRow]) -> None:
        """Count changed rows; to be called before they are saved."""
        for record in records:
            if record.deployment_id:
                self._add_row(record)

    def _add_row(self, record: AllocationRow) -> None:
        change = self._changes[record.deployment_id][record.task_group]
        before = record.old_healthy
        if record.deployment_id != record.old_deployment_id:
            change.placed += 1
            before = None
        after = record.healthy
        if after == before:
            return
        change.healthy += (after is True) - (before is True)
        change.unhealthy += (after is False) - (before is False)
        status = record.body.deployment_status
        if after is True and status is not None and status.timestamp is not None:
            change.healthy_at = max(change.healthy_at or status.timestamp, status.timestamp)

    def write(self, txn: WriteTxn) -> list[Deployment]:
        """Returns the deployments that changed; those that have ended are left alone."""
        changed = []
        for deployment_id, groups in self._changes.items():
            deployment = txn.deployments.get(deployment_id)
            if deployment is None or not deployment.is_active:
                continue
            if any([_apply(txn, deployment, name, change) for name, change in groups.items()]):
                deployment.modify_index, deployment.modify_time_ns = txn.index, txn.now_ns
                txn.deployments.put(deployment)
                changed.append(deployment)
        return changed


def _apply(txn: WriteTxn, deployment: Deployment, group: str, change: GroupChange) -> bool:
    state = deployment.task_groups.get(group)
    if state is None or change == GroupChange():
        return False
    state.placed_allocs += change.placed
    state.healthy_allocs += change.healthy
    state.unhealthy_allocs += change.unhealthy
    if change.canaries:
        state.placed_canaries = [*(state.placed_canaries or ()), *change.canaries]
    _move_deadline(txn, state, change)
    return True


def _move_deadline(txn: WriteTxn, state: DeploymentState, change: GroupChange) -> None:
    """The first placement starts the progress deadline; each newly healthy one extends it."""
    if not state.progress_deadline_ns:
        return
    allowed = timedelta(microseconds=state.progress_deadline_ns // 1000)
    if change.placed and state.require_progress_by is None:
        state.require_progress_by = datetime_of_ns(txn.now_ns) + allowed
    if change.healthy_at is not None:
        deadline = change.healthy_at + allowed
        if state.require_progress_by is None or deadline > state.require_progress_by:
            state.require_progress_by = deadline
