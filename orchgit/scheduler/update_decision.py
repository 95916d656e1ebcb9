"""The versions of a job, and what a newer one means for an allocation that is there."""

from __future__ import annotations

import numpy as np

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import NodeStatus
from orchgit.scheduler.feasibility.checks import ALL_POOLS, in_datacenters
from orchgit.scheduler.placement.stack import GroupStack, Stacks
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.reconcile.group_state import DESTRUCTIVE, IGNORE, IN_PLACE
from orchgit.scheduler.reconcile.updates import must_replace


class JobVersions:
    """The versions of one job that its allocations refer to, each read once."""

    def __init__(self, view: ClusterView, current: Job | None) -> None:
        self._view = view
        self._known: dict[tuple[str, str, int], Job | None] = {}
        self._groups: dict[tuple[int, str], TaskGroup | None] = {}
        if current is not None:
            self._known[current.namespace, current.id, current.version] = current

    def of(self, allocation: Allocation) -> Job | None:
        return self.version(allocation.namespace, allocation.job_id, allocation.job_version)

    def version(self, namespace: str, job_id: str, version: int) -> Job | None:
        key = (namespace, job_id, version)
        if key not in self._known:
            self._known[key] = self._view.job_version(*key)
        return self._known[key]

    def group_of(self, allocation: Allocation) -> TaskGroup | None:
        key = (allocation.job_version, allocation.task_group)
        if key not in self._groups:
            job = self.of(allocation)
            self._groups[key] = job.group(allocation.task_group) if job is not None else None
        return self._groups[key]


class UpdateDecision:
    """Whether an allocation is up to date, can be updated in place, or must be replaced."""

    def __init__(
        self,
        job: Job | None,
        versions: JobVersions,
        stacks: Stacks | None,
        *,
        ended_are_updated: bool = False,
    ) -> None:
        self._job = job
        self._versions = versions
        self._stacks = stacks
        self._ended_are_updated = ended_are_updated
        self._must_replace: dict[tuple[int, str], bool] = {}
        """(older version, group) -> whether the group differs in what runs."""

    def kind(self, allocation: Allocation, group: TaskGroup) -> str:
        job, stacks = self._job, self._stacks
        if job is None or stacks is None or self.is_current(allocation):
            return IGNORE
        old = self._versions.of(allocation)
        if old is None:
            return DESTRUCTIVE
        key = (old.version, group.name)
        if key not in self._must_replace:
            self._must_replace[key] = must_replace(old, job, group.name)
        if self._must_replace[key]:
            return DESTRUCTIVE
        if allocation.is_terminal:
            return IN_PLACE if self._ended_are_updated else IGNORE
        if not self._may_stay(allocation, job, group, stacks):
            return DESTRUCTIVE
        return IN_PLACE if self._takes_updates(allocation, stacks) else IGNORE

    def is_current(self, allocation: Allocation) -> bool:
        """Whether it is of the job as it is now: a version may differ in what is not run."""
        job, old = self._job, self._versions.of(allocation)
        return job is not None and old is not None and old.job_modify_index == job.job_modify_index

    def _takes_updates(self, allocation: Allocation, stacks: Stacks) -> bool:
        """A node that is away takes none, but for what is known to be out of touch there; its
        return brings the others here again."""
        node = stacks.view.node(allocation.node_id)
        is_there = node is not None and node.status == NodeStatus.READY
        return is_there or allocation.client_status == ClientStatus.UNKNOWN

    def _may_stay(self, allocation: Allocation, job: Job, group: TaskGroup, stacks: Stacks) -> bool:
        """Whether its node passes the new version's checks and has room for what it asks now."""
        row = stacks.columns.rows.get(allocation.node_id)
        node = stacks.columns.nodes[row] if row is not None else None
        if row is None or node is None or not in_datacenters(node, job.datacenters):
            return False
        if job.node_pool not in (ALL_POOLS, node.node_pool):
            return False
        stack = stacks.of(job, group)
        keep, _, _ = stacks.eligibility.filter(np.array([row]), group.name, stack.checks)
        if not keep[0] or is_refused(stacks, stack, allocation, row):
            return False
        if not stack.ask.is_plain or allocation.allocated_resources is None:
            return True
        old = allocation.allocated_resources.total()
        cpu, memory, disk = stacks.proposed.usage(row)
        columns = stacks.columns
        return bool(
            cpu - old.cpu_shares + stack.ask.cpu <= columns.cpu_capacity[row]
            and memory - old.memory_mb + stack.ask.memory <= columns.memory_capacity[row]
            and disk - old.disk_mb + stack.ask.disk <= columns.disk_capacity[row]
        )


def is_refused(stacks: Stacks, stack: GroupStack, allocation: Allocation, row: int) -> bool:
    """Whether the others of the job, or volumes, would not let it in if it came now."""
    if not stack.has_row_checks:
        return False
    held = allocation.id in stacks.claims.held_by
    selector = stacks.selector(stack)
    stacks.stop(allocation)
    refused = bool(selector.refusal(row, allocation.name))
    stacks.unstop(allocation, held_claim=held)
    return refused
