"""Gives every wanted placement a node, or an explanation why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation, ClientStatus, RescheduleTracker, alloc_name
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.job import Job
from orchgit.model.plan import AllocPreemption, AllocStop, AllocUpdate, VolumeClaimRequest
from orchgit.model.volume import TaskGroupVolumeClaim
from orchgit.scheduler.feasibility.volumes import host_requests
from orchgit.scheduler.placement.class_sampling import ClassSampling
from orchgit.scheduler.placement.explain import coalesce, failure, node_at, success, success_on_row
from orchgit.scheduler.placement.fit import volume_source
from orchgit.scheduler.placement.preemption import Eviction
from orchgit.scheduler.placement.preemption_choice import PreemptionChoice
from orchgit.scheduler.placement.stack import GroupStack, Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.ranking.best_first import NO_ROW
from orchgit.scheduler.ranking.selector import Choice, Request, Selector
from orchgit.scheduler.reconcile.changes import UPDATING, Placement
from orchgit.scheduler.reconcile.classify import GroupOf
from orchgit.scheduler.reconcile.reschedule import (
    NO_PLACEMENT,
    RESCHEDULED_OK,
    had_no_placement,
    next_tracker,
)

_EXPLAIN_EACH_UP_TO = 16


class Placer:
    """Fills a plan with placements, one after the other, each seeing those before it."""

    def __init__(
        self,
        stacks: Stacks,
        builder: PlanBuilder,
        evaluation: Evaluation,
        group_of: GroupOf,
        ids: IdSource,
        now_ns: int,
        *,
        one_node_each: bool = False,
    ) -> None:
        self.failed: dict[str, AllocMetric] = {}
        self.queued: Counter[str] = Counter()
        self.missing_resources: list[str] = []
        self.quota_reached = ""
        """The quota that left no room."""
        self._stacks = stacks
        self._builder = builder
        self._plan = builder.plan
        self._evaluation = evaluation
        self._group_of = group_of
        self._ids = ids
        self._now_ns = now_ns
        self._stops: dict[str, AllocStop] = {stop.alloc_id: stop for stop in self._plan.stops}
        self._updates = {update.alloc_id: update for update in self._plan.updates}
        self._explain_each = True
        self._explained: set[tuple[str, int]] = set()
        self._class_learning = ClassSampling(stacks, evaluation.type)
        self._one_node_each = one_node_each
        self.evictions = PreemptionChoice(stacks)

    def place_all(
        self, placements: Sequence[Placement], job_of: dict[int, tuple[Job, str]], deployment: str
    ) -> None:
        """`job_of`: position -> (older job version to place, its deployment), for downgrades."""
        self._explain_each = len(placements) <= _EXPLAIN_EACH_UP_TO
        job = self._stacks.job
        for position, placement in enumerate(placements):
            placed_job, deployment_id = job_of.get(position, (job, deployment))
            self._place(placement, placed_job, deployment_id)

    def _place(self, placement: Placement, job: Job, deployment_id: str) -> None:
        name = placement.group.name
        self.queued[name] += 0
        known_failure = self.failed.get(name)
        if known_failure is not None:
            coalesce(known_failure, self._stacks.of(job, placement.group).group)
            self._not_placed(placement)
            return
        stack = self._stacks.of(job, placement.group)
        held_claim = self._stop_previous(placement)
        hopeless = self.over_quota(stack) or self._nowhere(stack)
        if hopeless is not None:
            self._restart_previous(placement, held_claim)
            self.failed[name] = hopeless
            self._not_placed(placement)
            return
        selector = self._stacks.selector(stack)
        request = self._request(placement, job, stack)
        choice = selector.select(request)
        evictions: dict[int, Eviction] = {}
        if choice is None:
            choice, evictions = self.evictions.choose(selector, request)
        if choice is None:
            self._restart_previous(placement, held_claim)
            self.failed[name] = failure(
                self._stacks.proposed,
                self._stacks.candidates,
                stack.checks,
                selector,
                self._stacks.eligibility,
                request,
                looked_twice=self.evictions.is_on,
            )
            self._note_missing(stack, request.name)
            self._not_placed(placement)
            return
        self.commit(placement, job, stack, selector, choice, request, deployment_id, evictions)

    def over_quota(self, stack: GroupStack) -> AllocMetric | None:
        """The explanation when the namespace's quota does not allow one more."""
        quota = self._stacks.quota
        exceeded = quota.exceeded_by(stack.ask) if quota is not None else []
        if quota is None or not exceeded:
            return None
        self.quota_reached = quota.name
        return replace(self._stacks.candidates.metric(), quota_exhausted=exceeded)

    def _nowhere(self, stack: GroupStack) -> AllocMetric | None:
        """The explanation when there is no node to look at. What volumes lack takes a look at
        their checks even so."""
        candidates = self._stacks.candidates
        return None if len(candidates.rows) or stack.has_volumes else candidates.metric()

    def _request(self, placement: Placement, job: Job, stack: GroupStack) -> Request:
        request = Request(alloc_name(job.id, placement.group.name, placement.name_index))
        previous = placement.previous
        if previous is None:
            return request
        rows = self._stacks.columns.rows
        nodes = []
        if previous.client_status == ClientStatus.FAILED:
            nodes.append(previous.node_id)
        if previous.reschedule_tracker is not None:
            nodes += [event.prev_node_id for event in previous.reschedule_tracker.events]
        request.penalty_rows = frozenset(rows[node] for node in nodes if node in rows)
        disk = placement.group.ephemeral_disk
        if (disk.sticky or disk.migrate) and self._same_place(previous, job):
            row = rows.get(previous.node_id, NO_ROW)
            if row != NO_ROW and self._may_stay_on(row, stack):
                request.preferred_row = row
        return request

    def _may_stay_on(self, row: int, stack: GroupStack) -> bool:
        """Whether a node that the job was let in to takes more work. It may have left the job's
        pool since: the data is there."""
        node = node_at(self._stacks.columns, row)
        if not node.is_ready:
            return False
        # It is looked at before the others: what its class cannot do is known from then on.
        only = np.array([row])
        keep, _, _ = self._stacks.eligibility.filter(only, stack.group.name, stack.checks)
        return bool(keep[0])

    def _same_place(self, previous: Allocation, job: Job) -> bool:
        old = self._stacks.view.job_version(
            previous.namespace, previous.job_id, previous.job_version
        )
        if old is None:
            return False
        return old.node_pool == job.node_pool and set(old.datacenters) == set(job.datacenters)

    # --- the previous allocation ----------------------------------------------------------

    def _stop_previous(self, placement: Placement) -> bool:
        """A destructive update: what it holds is free for its successor. Whether it held claims."""
        if not placement.stops_previous or placement.previous is None:
            return False
        held = placement.previous.id in self._stacks.claims.held_by
        self._stacks.stop(placement.previous)
        return held

    def _restart_previous(self, placement: Placement, held_claim: bool) -> None:
        if placement.stops_previous and placement.previous is not None:
            self._stacks.unstop(placement.previous, held_claim=held_claim)

    def _not_placed(self, placement: Placement) -> None:
        self.queued[placement.group.name] += 1
        previous = placement.previous
        if not placement.rescheduling or previous is None:
            return
        stop = self._stops.get(previous.id)
        if stop is not None and not self._has_given_room_of(previous):
            self._stops.pop(previous.id)
            self._plan.stops.remove(stop)
        tracker = replace(
            previous.reschedule_tracker or RescheduleTracker(), last_reschedule=NO_PLACEMENT
        )
        update = self._updates.get(previous.id)
        if update is not None:
            update.reschedule_tracker = tracker
        elif not had_no_placement(previous):
            self._plan.updates.append(
                AllocUpdate(
                    alloc_id=previous.id, node_id=previous.node_id, reschedule_tracker=tracker
                )
            )

    def _has_given_room_of(self, previous: Allocation) -> bool:
        """Whether the plan places something where the allocation runs: its room may be needed."""
        return not previous.is_client_terminal and any(
            previous.node_id in columns.node_ids for columns in self._plan.placements
        )

    def _previous_replaced(self, placement: Placement, previous: Allocation) -> None:
        if placement.stops_previous:
            self._plan.stops.append(
                AllocStop(
                    alloc_id=previous.id, node_id=previous.node_id, desired_description=UPDATING
                )
            )
        if not placement.rescheduling:
            return
        tracker = replace(
            previous.reschedule_tracker or RescheduleTracker(), last_reschedule=RESCHEDULED_OK
        )
        stop = self._stops.get(previous.id)
        if stop is not None:
            stop.desired_description = ""
            stop.reschedule_tracker = tracker
        update = self._updates.get(previous.id)
        if update is not None:
            update.reschedule_tracker = tracker

    # --- commit ---------------------------------------------------------------------------

    def commit(
        self,
        placement: Placement,
        job: Job,
        stack: GroupStack,
        selector: Selector,
        choice: Choice,
        request: Request,
        deployment_id: str,
        evictions: dict[int, Eviction],
    ) -> str:
        """Put the placement into the plan and take what it gets; the new allocation's id.

        `evictions`: row -> what would have to go there, where nothing fits as it is."""
        node = node_at(self._stacks.columns, choice.row)
        eviction = evictions.get(choice.row)
        if eviction is not None:
            for victim in eviction.victims:
                self._stacks.proposed.stop(victim)
        metrics = self._metrics(placement, stack, selector, choice, request, evictions)
        columns, row = self._builder.add(
            job, placement, node, choice.offer, stack.ask.resources, deployment_id, metrics
        )
        alloc_id = columns.alloc_ids[row]
        if eviction is not None:
            columns.preempts_of[row] = [victim.id for victim in eviction.victims]
            self._plan.preemptions += [
                AllocPreemption(alloc_id=v.id, node_id=v.node_id, preempted_by=alloc_id)
                for v in eviction.victims
            ]
        if placement.rescheduling and placement.previous is not None:
            previous = placement.previous
            old_group = self._group_of(previous)
            policy = old_group.reschedule_policy if old_group is not None else None
            columns.reschedule_of[row] = next_tracker(previous, policy, self._now_ns)
        if placement.previous is not None:
            self._previous_replaced(placement, placement.previous)
        self._take(stack, choice, alloc_id, request.name, job)
        return alloc_id

    def _metrics(
        self,
        placement: Placement,
        stack: GroupStack,
        selector: Selector,
        choice: Choice,
        request: Request,
        evictions: dict[int, Eviction],
    ) -> AllocMetric | None:
        """Of every placement when there are few, else of the first one of the group."""
        key = (placement.group.name, stack.job.version)
        if not self._explain_each and key in self._explained:
            return None
        self._explained.add(key)
        candidates = self._stacks.candidates
        if not self._one_node_each and choice.row != request.preferred_row:
            self._class_learning.placed(stack, selector, request)
        if self._one_node_each:
            eviction = evictions.get(choice.row)
            return success_on_row(candidates, selector, request, choice.row, eviction)
        return success(
            self._stacks.proposed,
            candidates,
            stack.checks,
            selector,
            self._stacks.eligibility,
            request,
            choice.row,
            evictions,
        )

    def _take(self, stack: GroupStack, choice: Choice, alloc_id: str, name: str, job: Job) -> None:
        proposed, ask, group = self._stacks.proposed, stack.ask, stack.group
        proposed.place(choice.row, group.name, choice.offer.cpu, ask.memory, ask.disk)
        if choice.offer.ports:
            proposed.take_ports(choice.row, choice.offer.ports)
        if choice.offer.resources is not None or stack.has_volumes:
            proposed.record(
                choice.row,
                Allocation(
                    id=alloc_id,
                    namespace=job.namespace,
                    name=name,
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
            self._claim(stack, choice.row, alloc_id, name)

    def _claim(self, stack: GroupStack, row: int, alloc_id: str, name: str) -> None:
        node = node_at(self._stacks.columns, row)
        job = stack.job
        origin = job.origin
        for request in host_requests(stack.group):
            if not request.sticky:
                continue
            volume = node.host_volumes[volume_source(request, name)]
            claim = TaskGroupVolumeClaim(
                id=self._ids.new(),
                namespace=job.namespace,
                job_id=job.id,
                task_group_name=stack.group.name,
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
                    task_group_name=stack.group.name,
                    alloc_id=alloc_id,
                    volume_id=volume.id,
                    volume_name=request.source,
                    commit_id=origin.commit_id if origin is not None else "",
                    rollout_id=origin.rollout_id if origin is not None else "",
                )
            )

    def _note_missing(self, stack: GroupStack, name: str) -> None:
        for check in self._stacks.selector(stack).ranking.row_checks:
            csi = getattr(check, "csi", None)
            if csi is not None:
                self.missing_resources += csi.missing(name)
