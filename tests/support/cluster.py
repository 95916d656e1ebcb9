"""A cluster in plain dictionaries: the scheduler's view without a store; commits plans too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    AllocState,
    DesiredTransition,
    alloc_name,
)
from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations, SteadyGroup
from orchgit.model.node import Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.plan import AllocUpdate, Placements, PlanResult
from orchgit.model.quota import QuotaRoom
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.state.columns import ClusterColumns


class ListCluster:
    """Implements `ClusterView`; `apply` commits a plan (or the part of one that is accepted)."""

    def __init__(self, now_ns: int = 1_800_000_000_000_000_000) -> None:
        self.now_ns = now_ns
        self.index = 1000
        self.jobs: dict[tuple[str, str, int], Job] = {}
        self.purged: set[tuple[str, str]] = set()
        self.nodes: dict[str, Node] = {}
        self.allocs: dict[str, Allocation] = {}
        self.deployment_table: dict[str, Deployment] = {}
        self.volumes: dict[str, HostVolume] = {}
        self.csi: dict[tuple[str, str], dict[str, Any]] = {}
        self.claims: dict[str, TaskGroupVolumeClaim] = {}
        self.pools: dict[str, NodePool] = {}
        self.quotas: dict[str, QuotaRoom] = {}
        self.config = SchedulerConfig()
        self._columns: ClusterColumns | None = None

    # --- the view -------------------------------------------------------------------------

    @property
    def columns(self) -> ClusterColumns:
        if self._columns is None:
            self._columns = ClusterColumns()
            for node in self.nodes.values():
                self._columns.put_node(node)
            for allocation in self.allocs.values():
                self._columns.add_allocation(allocation)
        return self._columns

    def changed(self) -> None:
        """Something was changed by hand: the columns are built anew."""
        self.index += 1
        self._columns = None

    def job(self, namespace: str, job_id: str) -> Job | None:
        if (namespace, job_id) in self.purged:
            return None
        versions = [j for (ns, id_, _), j in self.jobs.items() if (ns, id_) == (namespace, job_id)]
        return max(versions, key=lambda job: job.version, default=None)

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None:
        return self.jobs.get((namespace, job_id, version))

    def allocations_by_job(self, namespace: str, job_id: str) -> list[Allocation]:
        key = (namespace, job_id)
        return [a for a in self.allocs.values() if (a.namespace, a.job_id) == key]

    def namesakes(self, namespace: str, job_id: str) -> list[tuple[str, str]]:
        return [
            (a.task_group, a.node_id)
            for a in self.allocs.values()
            if a.job_id == job_id and a.namespace != namespace and not a.is_client_terminal
        ]

    def job_allocations(self, job: Job) -> JobAllocations:
        """Every steady one is told apart."""
        read = JobAllocations([], {group.name: SteadyGroup() for group in job.task_groups})
        for allocation in self.allocations_by_job(job.namespace, job.id):
            if self._is_steady(allocation, job):
                group = read.steady[allocation.task_group]
                group.name_indexes.append(allocation.name_index)
                group.node_ids.append(allocation.node_id)
            else:
                read.others.append(allocation)
        return read

    def _is_steady(self, allocation: Allocation, job: Job) -> bool:
        node, status = self.nodes.get(allocation.node_id), allocation.deployment_status
        return (
            allocation.desired_status == "run"
            and allocation.client_status in ("pending", "running")
            and allocation.job_version == job.version
            and job.group(allocation.task_group) is not None
            and not (status is not None and status.canary)
            and not allocation.alloc_states
            and allocation.desired_transition == DesiredTransition()
            and node is not None
            and node.status in ("ready", "initializing")
            and node.drain_strategy is None
        )

    def allocation(self, alloc_id: str) -> Allocation | None:
        return self.allocs.get(alloc_id)

    def allocations_on_node(self, node_id: str) -> list[Allocation]:
        return [
            a for a in self.allocs.values() if a.node_id == node_id and not a.is_client_terminal
        ]

    def node(self, node_id: str) -> Node | None:
        return self.nodes.get(node_id)

    def node_pool(self, name: str) -> NodePool | None:
        return self.pools.get(name)

    def latest_deployment(self, namespace: str, job_id: str) -> Deployment | None:
        mine = [
            d
            for d in self.deployment_table.values()
            if (d.namespace, d.job_id) == (namespace, job_id)
        ]
        return max(mine, key=lambda deployment: deployment.create_index, default=None)

    def deployments(self, namespace: str, job_id: str) -> list[Deployment]:
        key = (namespace, job_id)
        return [d for d in self.deployment_table.values() if (d.namespace, d.job_id) == key]

    def host_volume(self, volume_id: str) -> HostVolume | None:
        return self.volumes.get(volume_id)

    def volume_claims(self, namespace: str, job_id: str) -> list[TaskGroupVolumeClaim]:
        key = (namespace, job_id)
        return [c for c in self.claims.values() if (c.namespace, c.job_id) == key]

    def csi_volume(self, namespace: str, volume_id: str) -> Mapping[str, Any] | None:
        return self.csi.get((namespace, volume_id))

    def quota(self, namespace: str) -> QuotaRoom | None:
        return self.quotas.get(namespace)

    def scheduler_config(self) -> SchedulerConfig:
        return self.config

    # --- commits --------------------------------------------------------------------------

    def apply(self, result: PlanResult) -> None:
        """What the state does with a committed plan, as far as the scheduler sees it."""
        self.changed()
        if result.deployment is not None:
            kept = self.deployment_table.get(result.deployment.id)
            self.deployment_table[result.deployment.id] = replace(
                result.deployment,
                create_index=kept.create_index if kept else self.index,
                task_groups={
                    name: replace(state) for name, state in result.deployment.task_groups.items()
                },
            )
        for change in result.deployment_updates:
            if change.deployment_id in self.deployment_table:
                known = self.deployment_table[change.deployment_id]
                self.deployment_table[known.id] = replace(known, status=change.status)
        for stop in result.stops:
            known_alloc = self.allocs[stop.alloc_id]
            states = list(known_alloc.alloc_states or ())
            if stop.client_status:
                states.append(AllocState(value=stop.client_status, time=self._now()))
            self.allocs[stop.alloc_id] = replace(
                known_alloc,
                desired_status="stop",
                desired_description=stop.desired_description,
                client_status=stop.client_status or known_alloc.client_status,
                alloc_states=states or None,
                followup_eval_id=stop.followup_eval_id or known_alloc.followup_eval_id,
                reschedule_tracker=stop.reschedule_tracker or known_alloc.reschedule_tracker,
            )
        for preemption in result.preemptions:
            self.allocs[preemption.alloc_id] = replace(
                self.allocs[preemption.alloc_id],
                desired_status="evict",
                preempted_by_allocation=preemption.preempted_by,
            )
        for update in result.updates:
            self._update(update)
        for columns in result.placements:
            self._place(columns)
        for request in result.claims:
            self.claims[request.claim_id] = TaskGroupVolumeClaim(
                id=request.claim_id,
                namespace=request.namespace,
                job_id=request.job_id,
                task_group_name=request.task_group_name,
                alloc_id=request.alloc_id,
                volume_id=request.volume_id,
                volume_name=request.volume_name,
            )

    def _now(self) -> Any:
        return datetime_of_ns(self.now_ns)

    def _update(self, update: AllocUpdate) -> None:
        known = self.allocs[update.alloc_id]
        states = list(known.alloc_states or ())
        if update.record_client_status:
            states.append(AllocState(value=update.record_client_status, time=self._now()))
        self.allocs[known.id] = replace(
            known,
            job_version=known.job_version if update.job_version is None else update.job_version,
            allocated_resources=update.allocated_resources or known.allocated_resources,
            deployment_id=(
                known.deployment_id if update.deployment_id is None else update.deployment_id
            ),
            deployment_status=None if update.clear_deployment_status else known.deployment_status,
            client_status=update.client_status or known.client_status,
            alloc_states=states or None,
            followup_eval_id=(
                known.followup_eval_id
                if update.followup_eval_id is None
                else update.followup_eval_id
            ),
            reschedule_tracker=update.reschedule_tracker or known.reschedule_tracker,
        )

    def _place(self, columns: Placements) -> None:
        for row in range(len(columns)):
            placed = allocation_at(columns, row)
            placed.create_index = placed.modify_index = self.index
            placed.create_time_ns = placed.modify_time_ns = self.now_ns
            self.allocs[placed.id] = placed
            previous = self.allocs.get(placed.previous_allocation)
            if previous is not None:
                self.allocs[previous.id] = replace(previous, next_allocation=placed.id)
            deployment = self.deployment_table.get(placed.deployment_id)
            if deployment is not None and row in columns.canary_rows:
                state = deployment.task_groups[placed.task_group]
                state.placed_canaries = [*(state.placed_canaries or ()), placed.id]


def allocation_at(columns: Placements, row: int) -> Allocation:
    """One row of a plan's columns as the allocation it becomes."""
    resources = columns.resources_of.get(row, columns.resources)
    if columns.ports is not None and columns.ports[row]:
        resources = resources.with_ports(columns.ports[row])
    return Allocation(
        id=columns.alloc_ids[row],
        namespace=columns.namespace,
        eval_id=columns.eval_id,
        name=alloc_name(columns.job_id, columns.task_group, columns.name_indexes[row]),
        node_id=columns.node_ids[row],
        node_name=columns.node_names[row],
        job_id=columns.job_id,
        job_version=columns.job_version,
        job_type=columns.job_type,
        task_group=columns.task_group,
        allocated_resources=resources,
        metrics=columns.metrics_of.get(row, columns.metrics),
        previous_allocation=columns.previous_of.get(row, ""),
        deployment_id=columns.deployment_id,
        deployment_status=(
            AllocDeploymentStatus(canary=True) if row in columns.canary_rows else None
        ),
        reschedule_tracker=columns.reschedule_of.get(row),
        preempted_allocations=columns.preempts_of.get(row),
    )
