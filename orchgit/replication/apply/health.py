"""What changed allocations mean for their deployments: placed, healthy and unhealthy counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.plan import Placements
from orchgit.state.tables.allocation_rows import AllocRecord
from orchgit.state.transaction import WriteTxn


@dataclass(slots=True)
class Delta:
    """Of one group in one deployment; `healthy_at` is when its newest one became healthy."""

    placed: int = 0
    healthy: int = 0
    unhealthy: int = 0
    canaries: tuple[str, ...] = ()
    healthy_at: datetime | None = None


class DeploymentDeltas:
    """Gathers what one entry changes, then writes each deployment once."""

    def __init__(self) -> None:
        self._deltas: defaultdict[str, defaultdict[str, Delta]]
        self._deltas = defaultdict(lambda: defaultdict(Delta))

    def add_placements(self, placements: Placements) -> None:
        if not placements.deployment_id:
            return
        delta = self._deltas[placements.deployment_id][placements.task_group]
        delta.placed += len(placements)
        delta.canaries += tuple(placements.alloc_ids[row] for row in placements.canary_rows)

    def add_changes(self, records: Iterable[AllocRecord]) -> None:
        """Records as they are about to be saved."""
        for record in records:
            if record.deployment_id:
                self._add_change(record)

    def _add_change(self, record: AllocRecord) -> None:
        delta = self._deltas[record.deployment_id][record.task_group]
        before = record.old_healthy
        if record.deployment_id != record.old_deployment_id:
            delta.placed += 1
            before = None
        after = record.healthy
        if after == before:
            return
        delta.healthy += (after is True) - (before is True)
        delta.unhealthy += (after is False) - (before is False)
        status = record.body.deployment_status
        if after is True and status is not None and status.timestamp is not None:
            delta.healthy_at = max(delta.healthy_at or status.timestamp, status.timestamp)

    def write(self, txn: WriteTxn) -> list[Deployment]:
        """Deployments that have ended are left as they ended."""
        changed = []
        for deployment_id, groups in self._deltas.items():
            deployment = txn.deployments.get(deployment_id)
            if deployment is None or not deployment.is_active:
                continue
            if any([_apply(txn, deployment, name, delta) for name, delta in groups.items()]):
                deployment.modify_index, deployment.modify_time_ns = txn.index, txn.now_ns
                txn.deployments.put(deployment)
                changed.append(deployment)
        return changed


def _apply(txn: WriteTxn, deployment: Deployment, group: str, delta: Delta) -> bool:
    state = deployment.task_groups.get(group)
    if state is None or delta == Delta():
        return False
    state.placed_allocs += delta.placed
    state.healthy_allocs += delta.healthy
    state.unhealthy_allocs += delta.unhealthy
    if delta.canaries:
        state.placed_canaries = [*(state.placed_canaries or ()), *delta.canaries]
    _move_deadline(txn, state, delta)
    return True


def _move_deadline(txn: WriteTxn, state: DeploymentState, delta: Delta) -> None:
    """The first placement starts the progress deadline; each newly healthy one moves it on."""
    if not state.progress_deadline_ns:
        return
    allowed = timedelta(microseconds=state.progress_deadline_ns // 1000)
    if delta.placed and state.require_progress_by is None:
        state.require_progress_by = datetime_of_ns(txn.now_ns) + allowed
    if delta.healthy_at is not None:
        deadline = delta.healthy_at + allowed
        if state.require_progress_by is None or deadline > state.require_progress_by:
            state.require_progress_by = deadline
