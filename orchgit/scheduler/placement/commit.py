"""Puts a chosen placement into the plan, and takes what it gets from the proposed state."""

from __future__ import annotations

from collections.abc import Mapping

from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import AllocMetric
from orchgit.model.plan import AllocPreemption, VolumeClaimRequest
from orchgit.model.volume import TaskGroupVolumeClaim
from orchgit.scheduler.feasibility.volumes import host_requests
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.placement.attempt import Attempt
from orchgit.scheduler.placement.candidates import node_at
from orchgit.scheduler.placement.fit import volume_source
from orchgit.scheduler.placement.preemption import Eviction
from orchgit.scheduler.placement.previous import PreviousAllocations
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.ranking.selector import Choice
from orchgit.scheduler.reconcile.classify import GroupOf
from orchgit.scheduler.reconcile.reschedule import next_tracker


class Committer:
    """Each commit is seen by the placements after it."""

    def __init__(
        self,
        inputs: SchedulingInputs,
        stacks: Stacks,
        builder: PlanBuilder,
        previous: PreviousAllocations,
        group_of: GroupOf,
    ) -> None:
        self._inputs = inputs
        self._stacks = stacks
        self._builder = builder
        self._plan = builder.plan
        self._previous = previous
        self._group_of = group_of

    def commit(
        self,
        attempt: Attempt,
        choice: Choice,
        evictions: Mapping[int, Eviction],
        metrics: AllocMetric | None,
    ) -> str:
        """Returns the new allocation's id.

        `evictions`: row -> what has to go there, where nothing fits as it is."""
        placement = attempt.placement
        columns, row = self._builder.add(
            attempt, node_at(self._stacks.columns, choice.row), choice.offer, metrics
        )
        alloc_id = columns.alloc_ids[row]
        eviction = evictions.get(choice.row)
        if eviction is not None:
            columns.preempts_of[row] = [victim.id for victim in eviction.victims]
            self._plan.preemptions += [
                AllocPreemption(alloc_id=v.id, node_id=v.node_id, preempted_by=alloc_id)
                for v in eviction.victims
            ]
        if placement.rescheduling and placement.previous is not None:
            old_group = self._group_of(placement.previous)
            policy = old_group.reschedule_policy if old_group is not None else None
            columns.reschedule_of[row] = next_tracker(
                placement.previous, policy, self._inputs.now_ns
            )
        self._previous.replaced(placement)
        self._take(attempt, choice, alloc_id)
        return alloc_id

    def _take(self, attempt: Attempt, choice: Choice, alloc_id: str) -> None:
        stack, proposed = attempt.stack, self._stacks.proposed
        job, ask, group = stack.job, stack.ask, stack.group
        proposed.place(choice.row, group.name, choice.offer.cpu, ask.memory, ask.disk)
        if choice.offer.ports:
            proposed.take_ports(choice.row, choice.offer.ports)
        if choice.offer.resources is not None or stack.has_volumes:
            proposed.record(
                choice.row,
                Allocation(
                    id=alloc_id,
                    namespace=job.namespace,
                    name=attempt.request.name,
                    job_id=job.id,
                    job_version=job.version,
                    task_group=group.name,
                    allocated_resources=choice.offer.resources,
                ),
            )
        self._stacks.placed(choice.row, group.name)
        if self._stacks.quota is not None:
            self._stacks.quota.take(ask)
        if stack.is_sticky:
            self._claim_volumes(attempt, choice.row, alloc_id)

    def _claim_volumes(self, attempt: Attempt, row: int, alloc_id: str) -> None:
        """Claims the node's volumes for the group's sticky requests."""
        node = node_at(self._stacks.columns, row)
        job, group = attempt.stack.job, attempt.stack.group
        origin = job.origin
        for request in host_requests(group):
            if not request.sticky:
                continue
            volume = node.host_volumes[volume_source(request, attempt.request.name)]
            claim = TaskGroupVolumeClaim(
                id=self._inputs.ids.new(),
                namespace=job.namespace,
                job_id=job.id,
                task_group_name=group.name,
                alloc_id=alloc_id,
                volume_id=volume.id,
                volume_name=request.source,
            )
            taken_over = self._stacks.claims.take(claim)
            self._plan.claims.append(
                VolumeClaimRequest(
                    claim_id=taken_over.id if taken_over is not None else claim.id,
                    namespace=job.namespace,
                    job_id=job.id,
                    task_group_name=group.name,
                    alloc_id=alloc_id,
                    volume_id=volume.id,
                    volume_name=request.source,
                    commit_id=origin.commit_id if origin is not None else "",
                    rollout_id=origin.rollout_id if origin is not None else "",
                )
            )
