"""Gives every wanted placement a node, or an explanation why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from orchgit.model.allocation import Allocation, ClientStatus, alloc_name
from orchgit.model.evaluation import AllocMetric
from orchgit.model.job import Job
from orchgit.scheduler.feasibility.volumes import VolumeCheck
from orchgit.scheduler.finish import Unplaced
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.placement.attempt import Attempt
from orchgit.scheduler.placement.candidates import node_at
from orchgit.scheduler.placement.class_sampling import ClassSampling
from orchgit.scheduler.placement.commit import Committer
from orchgit.scheduler.placement.explain import Explainer, coalesce, success_on_row
from orchgit.scheduler.placement.preemption import Eviction
from orchgit.scheduler.placement.preemption_choice import PreemptionChoice
from orchgit.scheduler.placement.previous import PreviousAllocations
from orchgit.scheduler.placement.stack import GroupStack, Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.ranking.best_first import NO_ROW
from orchgit.scheduler.ranking.selector import Choice, Request
from orchgit.scheduler.reconcile.changes import Placement
from orchgit.scheduler.reconcile.classify import GroupOf

_EXPLAIN_EACH_UP_TO = 16
OlderJobs = Mapping[int, tuple[Job, str]]
"""Position of a placement -> (older job version to place, its deployment), for downgrades."""


class Placer:
    """Fills a plan with placements, one after the other, each seeing those before it."""

    def __init__(
        self,
        inputs: SchedulingInputs,
        stacks: Stacks,
        builder: PlanBuilder,
        group_of: GroupOf,
        unplaced: Unplaced,
        *,
        one_node_each: bool = False,
    ) -> None:
        """`one_node_each`: the node of each placement is given, as for system jobs."""
        self.preemptions = PreemptionChoice(stacks)
        self._stacks = stacks
        self._unplaced = unplaced
        self._previous = PreviousAllocations(builder.plan, stacks)
        self._committer = Committer(inputs, stacks, builder, self._previous, group_of)
        self._explainer = Explainer(stacks.proposed, stacks.eligibility)
        self._explain_each = True
        self._explained: set[tuple[str, int]] = set()
        self._class_sampling = ClassSampling(stacks, inputs.evaluation.type)
        self._one_node_each = one_node_each

    def place_all(
        self, placements: Sequence[Placement], older_jobs: OlderJobs, deployment_id: str
    ) -> None:
        self._explain_each = len(placements) <= _EXPLAIN_EACH_UP_TO
        current = (self._stacks.job, deployment_id)
        for position, placement in enumerate(placements):
            job, its_deployment_id = older_jobs.get(position, current)
            self._place(placement, self._stacks.of(job, placement.group), its_deployment_id)

    def _place(self, placement: Placement, stack: GroupStack, deployment_id: str) -> None:
        name, unplaced, candidates = placement.group.name, self._unplaced, self._stacks.candidates
        unplaced.queued[name] += 0
        known_failure = unplaced.failed.get(name)
        if known_failure is not None:
            coalesce(known_failure, stack.group)
            self._not_placed(placement)
            return
        held_claim = self._previous.free(placement)
        hopeless = self.over_quota(stack)
        # What volumes lack is found by a look at their checks, even where there is no node.
        if hopeless is None and not len(candidates.rows) and not stack.has_volumes:
            hopeless = candidates.metric()
        if hopeless is not None:
            self._previous.restore(placement, held_claim)
            unplaced.failed[name] = hopeless
            self._not_placed(placement)
            return
        selector = self._stacks.selector(stack)
        request = self._request(placement, stack)
        choice = selector.select(request)
        evictions: dict[int, Eviction] = {}
        if choice is None:
            choice, evictions = self.preemptions.choose(selector, request)
        if choice is not None:
            attempt = Attempt(placement, stack, selector, request, deployment_id)
            self.commit(attempt, choice, evictions)
            return
        self._previous.restore(placement, held_claim)
        unplaced.failed[name] = self._explainer.failure(
            candidates, stack.checks, selector, request, looked_twice=self.preemptions.is_on
        )
        for check in selector.ranking.row_checks:
            if isinstance(check, VolumeCheck) and check.csi is not None:
                unplaced.missing_resources += check.csi.missing(request.name)
        self._not_placed(placement)

    def _not_placed(self, placement: Placement) -> None:
        self._unplaced.queued[placement.group.name] += 1
        self._previous.not_replaced(placement)

    def over_quota(self, stack: GroupStack) -> AllocMetric | None:
        """The explanation when the namespace's quota does not allow one more."""
        quota = self._stacks.quota
        exceeded = quota.exceeded_by(stack.ask) if quota is not None else []
        if quota is None or not exceeded:
            return None
        self._unplaced.quota_reached = quota.name
        return replace(self._stacks.candidates.metric(), quota_exhausted=exceeded)

    def _request(self, placement: Placement, stack: GroupStack) -> Request:
        """What the selector looks for: nodes of failed tries count less, and the node that has the
        data of a sticky disk is tried first."""
        job = stack.job
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
        """Whether the previous allocation's job version had the same pool and datacenters."""
        old = self._stacks.view.job_version(
            previous.namespace, previous.job_id, previous.job_version
        )
        if old is None:
            return False
        return old.node_pool == job.node_pool and set(old.datacenters) == set(job.datacenters)

    def commit(self, attempt: Attempt, choice: Choice, evictions: Mapping[int, Eviction]) -> str:
        """Puts the placement into the plan, and takes what it gets; returns the new allocation's
        id.

        `evictions`: row -> what would have to go there, where nothing fits as it is."""
        eviction = evictions.get(choice.row)
        if eviction is not None:
            for victim in eviction.victims:
                self._stacks.proposed.stop(victim)
        metrics = self._metrics(attempt, choice, evictions)
        return self._committer.commit(attempt, choice, evictions, metrics)

    def _metrics(
        self, attempt: Attempt, choice: Choice, evictions: Mapping[int, Eviction]
    ) -> AllocMetric | None:
        """Of every placement when there are few, else of the first one of the group."""
        stack, selector, request = attempt.stack, attempt.selector, attempt.request
        key = (attempt.placement.group.name, stack.job.version)
        if not self._explain_each and key in self._explained:
            return None
        self._explained.add(key)
        candidates = self._stacks.candidates
        if self._one_node_each:
            eviction = evictions.get(choice.row)
            return success_on_row(candidates, selector, request, choice.row, eviction)
        if choice.row != request.preferred_row:
            self._class_sampling.placed(stack, selector, request)
        return self._explainer.success(
            candidates, stack.checks, selector, request, choice.row, evictions
        )
