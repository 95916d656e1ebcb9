"""The cluster as it would be with imagined jobs and plans.

Imports numpy: only `dry_run` imports this module, and only when the first plan is asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from orchgit.model.allocation import Allocation, alloc_name
from orchgit.model.deployment import Deployment
from orchgit.model.fit import PreemptedAllocation, Room
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations
from orchgit.model.node import Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.plan import Placements, Plan
from orchgit.model.quota import QuotaRoom
from orchgit.model.resources import AllocatedResources
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.scheduler.placement.networks import ports_of
from orchgit.scheduler.ports import ClusterView, Mask, NodeColumns, Numbers
from orchgit.services.jobs.fit import NodeRoom


class ImaginedColumns:
    """The columns of a real view, with a copy of the usage, which imagined plans change."""

    def __init__(self, base: NodeColumns) -> None:
        self._base = base
        self.cpu_used = base.cpu_used.copy()
        self.memory_used = base.memory_used.copy()
        self.disk_used = base.disk_used.copy()
        self._ports: dict[int, dict[str, set[int]]] = {}

    @property
    def rows(self) -> Mapping[str, int]:
        return self._base.rows

    @property
    def nodes(self) -> Sequence[Node | None]:
        return self._base.nodes

    @property
    def ready(self) -> Mask:
        return self._base.ready

    @property
    def class_codes(self) -> Numbers:
        return self._base.class_codes

    @property
    def cpu_capacity(self) -> Numbers:
        return self._base.cpu_capacity

    @property
    def memory_capacity(self) -> Numbers:
        return self._base.memory_capacity

    @property
    def disk_capacity(self) -> Numbers:
        return self._base.disk_capacity

    @property
    def memo(self) -> dict[Hashable, Any]:
        return self._base.memo

    def used_ports(self, row: int) -> Mapping[str, frozenset[int] | set[int]]:
        return self._ports.get(row) or self._base.used_ports(row)

    def use(self, node_id: str, resources: AllocatedResources, sign: int) -> None:
        """Adds an allocation to the usage (sign 1), or takes it out (-1)."""
        row = self.rows.get(node_id)
        if row is None:
            return
        total = resources.total()
        self.cpu_used[row] += sign * total.cpu_shares
        self.memory_used[row] += sign * total.memory_mb
        self.disk_used[row] += sign * total.disk_mb
        held = self._ports.setdefault(
            row, {name: set(ports) for name, ports in self._base.used_ports(row).items()}
        )
        for address, port in ports_of(resources):
            ports = held.setdefault(address, set())
            (ports.add if sign > 0 else ports.discard)(port)


class ImaginedView:
    """A ClusterView in which `jobs` are registered and earlier imagined plans are carried out."""

    def __init__(self, base: ClusterView, jobs: Sequence[Job]) -> None:
        self._base = base
        self._jobs = {(job.namespace, job.id): job for job in jobs}
        self.preempted: list[PreemptedAllocation] = []
        """The allocations that carried out plans preempted, in their order."""
        self._stopped: set[str] = set()
        self._placed: dict[str, list[Allocation]] = {}
        self._columns = ImaginedColumns(base.columns)

    def carry_out(self, plan: Plan) -> None:
        """Applies a plan, so that later jobs see what it would have done to the nodes."""
        for stop in plan.stops:
            self._remove(stop.alloc_id, stop.node_id)
        for preemption in plan.preemptions:
            self._remove(preemption.alloc_id, preemption.node_id)
            victim = self._base.allocation(preemption.alloc_id) or Allocation()
            self.preempted.append(
                PreemptedAllocation(
                    alloc_id=preemption.alloc_id,
                    namespace=victim.namespace,
                    job_id=victim.job_id,
                    task_group=victim.task_group,
                    node_id=preemption.node_id,
                    preempted_by=plan.job_id,
                )
            )
        for placements in plan.placements:
            for allocation in _allocations(placements):
                self._placed.setdefault(allocation.node_id, []).append(allocation)
                assert allocation.allocated_resources is not None
                self._columns.use(allocation.node_id, allocation.allocated_resources, 1)

    @contextmanager
    def imagining(self, job: Job) -> Iterator[None]:
        """Shows another specification of a registered job while the context lasts."""
        key = (job.namespace, job.id)
        shown = self._jobs[key]
        self._jobs[key] = job
        try:
            yield
        finally:
            self._jobs[key] = shown

    def node_rooms(self) -> Iterator[NodeRoom]:
        """Yields the ready nodes with what is in use before and after the carried out plans."""
        before, after = self._base.columns, self._columns
        for row in before.ready.nonzero()[0].tolist():
            node = before.nodes[row]
            if node is not None:
                total = (before.cpu_capacity, before.memory_capacity, before.disk_capacity)
                yield NodeRoom(
                    node,
                    _room(row, *total),
                    _room(row, before.cpu_used, before.memory_used, before.disk_used),
                    _room(row, after.cpu_used, after.memory_used, after.disk_used),
                )

    def _remove(self, alloc_id: str, node_id: str) -> None:
        for allocation in self._base.allocations_on_node(node_id):
            if allocation.id == alloc_id and alloc_id not in self._stopped:
                self._stopped.add(alloc_id)
                if allocation.allocated_resources is not None:
                    self._columns.use(node_id, allocation.allocated_resources, -1)

    @property
    def index(self) -> int:
        return self._base.index

    @property
    def columns(self) -> NodeColumns:
        return self._columns

    def job(self, namespace: str, job_id: str) -> Job | None:
        return self._jobs.get((namespace, job_id)) or self._base.job(namespace, job_id)

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None:
        imagined = self._jobs.get((namespace, job_id))
        if imagined is not None and imagined.version == version:
            return imagined
        return self._base.job_version(namespace, job_id, version)

    def allocation(self, alloc_id: str) -> Allocation | None:
        return self._base.allocation(alloc_id)

    def allocations_by_job(self, namespace: str, job_id: str) -> Sequence[Allocation]:
        return self._base.allocations_by_job(namespace, job_id)

    def namesakes(self, namespace: str, job_id: str) -> Sequence[tuple[str, str]]:
        return self._base.namesakes(namespace, job_id)

    def job_allocations(self, job: Job) -> JobAllocations:
        return self._base.job_allocations(job)

    def allocations_on_node(self, node_id: str) -> Sequence[Allocation]:
        real = self._base.allocations_on_node(node_id)
        if not self._stopped and not self._placed:
            return real
        kept = [each for each in real if each.id not in self._stopped]
        return [*kept, *self._placed.get(node_id, ())]

    def node(self, node_id: str) -> Node | None:
        return self._base.node(node_id)

    def node_pool(self, name: str) -> NodePool | None:
        return self._base.node_pool(name)

    def latest_deployment(self, namespace: str, job_id: str) -> Deployment | None:
        return self._base.latest_deployment(namespace, job_id)

    def deployments(self, namespace: str, job_id: str) -> Sequence[Deployment]:
        return self._base.deployments(namespace, job_id)

    def host_volume(self, volume_id: str) -> HostVolume | None:
        return self._base.host_volume(volume_id)

    def volume_claims(self, namespace: str, job_id: str) -> Sequence[TaskGroupVolumeClaim]:
        return self._base.volume_claims(namespace, job_id)

    def csi_volume(self, namespace: str, volume_id: str) -> Mapping[str, Any] | None:
        return self._base.csi_volume(namespace, volume_id)

    def quota(self, namespace: str) -> QuotaRoom | None:
        return self._base.quota(namespace)

    def scheduler_config(self) -> SchedulerConfig:
        return self._base.scheduler_config()


def _room(row: int, cpu: Numbers, memory: Numbers, disk: Numbers) -> Room:
    return Room(int(cpu[row]), int(memory[row]), int(disk[row]))


def _allocations(placements: Placements) -> Iterator[Allocation]:
    for row in range(len(placements)):
        yield Allocation(
            id=placements.alloc_ids[row],
            namespace=placements.namespace,
            eval_id=placements.eval_id,
            name=alloc_name(placements.job_id, placements.task_group, placements.name_indexes[row]),
            node_id=placements.node_ids[row],
            job_id=placements.job_id,
            job_version=placements.job_version,
            job_type=placements.job_type,
            task_group=placements.task_group,
            allocated_resources=_resources(placements, row),
        )


def _resources(placements: Placements, row: int) -> AllocatedResources:
    resources = placements.resources_of.get(row, placements.resources)
    if not placements.ports or not placements.ports[row]:
        return resources
    shared = replace(resources.shared, ports=placements.ports[row])
    return replace(resources, shared=shared)
