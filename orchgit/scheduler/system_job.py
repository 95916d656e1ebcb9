"""Schedules system and sysbatch jobs: one allocation on every node that qualifies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation, ClientStatus, alloc_name
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import AllocMetric, DesiredUpdates, Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node
from orchgit.model.plan import AllocStop, Plan
from orchgit.scheduler.feasibility.checks import ALL_POOLS
from orchgit.scheduler.feasibility.eligibility import ClassEligibility
from orchgit.scheduler.feasibility.versions import parse_version
from orchgit.scheduler.finish import annotate, complete, preempting_groups
from orchgit.scheduler.outcome import SchedulingOutcome, blocked_evaluation
from orchgit.scheduler.placement.explain import Candidates, coalesce, failure, node_at
from orchgit.scheduler.placement.place import Placer
from orchgit.scheduler.placement.stack import GroupStack, Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.selector import Request
from orchgit.scheduler.reconcile.changes import (
    LOST,
    NODE_TAINTED,
    NOT_NEEDED,
    UPDATING,
    Disconnect,
    JobChanges,
    Placement,
    Stop,
)
from orchgit.scheduler.reconcile.system import GroupDiff, SystemContext, diff_system
from orchgit.scheduler.reconcile.system_deployment import SystemDeployment
from orchgit.scheduler.reconcile.unconfirmed_stops import lose_unconfirmed_stops
from orchgit.scheduler.service_job import (
    new_plan,
    tainted_nodes,
    write_changes,
    write_in_place,
)
from orchgit.scheduler.system_group import GroupRun, all_filtered
from orchgit.scheduler.update_decision import JobVersions, UpdateDecision, is_refused

_FIRST_WITH_DEPLOYMENTS = (1, 11, 0)


def schedule_system(
    evaluation: Evaluation, view: ClusterView, now_ns: int, seed: int, ids: IdSource
) -> SchedulingOutcome:
    job = view.job(evaluation.namespace, evaluation.job_id)
    allocations = view.allocations_by_job(evaluation.namespace, evaluation.job_id)
    run = _SystemRun(evaluation, view, job, allocations, now_ns, seed, ids)
    return run.outcome()


class _SystemRun:
    """One evaluation; the parts share too much to pass it around."""

    def __init__(
        self,
        evaluation: Evaluation,
        view: ClusterView,
        job: Job | None,
        allocations: Sequence[Allocation],
        now_ns: int,
        seed: int,
        ids: IdSource,
    ) -> None:
        self._evaluation = evaluation
        self._view = view
        self._job = job
        self._allocations = allocations
        self._tainted = tainted_nodes(view, allocations)
        self._now_ns = now_ns
        self._ids = ids
        self._is_sysbatch = evaluation.type == JobType.SYSBATCH
        self._versions = JobVersions(view, job)
        self._stacks: Stacks | None = None
        if job is not None and not job.stop:
            key = (evaluation.namespace, evaluation.job_id)
            proposed = Proposed(view, key, allocations)
            self._stacks = Stacks(view, job, proposed, allocations, seed)
        self._decision = UpdateDecision(job, self._versions, self._stacks, ended_are_updated=True)
        self._deployment = SystemDeployment(job, self._latest(), evaluation, ids, now_ns)
        self._plan: Plan = new_plan(evaluation, job, view)
        self._changes = JobChanges()
        self._queued: Counter[str] = Counter()
        self._failed: dict[str, AllocMetric] = {}
        self._candidates: dict[str, Node] = {}
        self._blocked_node: tuple[Node, TaskGroup] | None = None
        self._quota_reached = ""

    def _latest(self) -> Deployment | None:
        if self._is_sysbatch:
            return None
        return self._view.latest_deployment(self._evaluation.namespace, self._evaluation.job_id)

    def outcome(self) -> SchedulingOutcome:
        diffs = self._diff()
        for name, diff in diffs.items():
            self._note(name, diff)
            if not self._candidates and self._changes.desired[name] == DesiredUpdates():
                del self._changes.desired[name]
        if self._job is not None and self._stacks is not None:
            self._run(self._job, self._stacks, diffs)
        else:
            write_changes(self._plan, self._changes, None)
        lose_unconfirmed_stops(self._plan, self._allocations, self._tainted)
        self._deployment.write(self._plan)
        annotate(self._plan, self._changes.desired, preempting_groups(self._plan))
        outcome = complete(
            self._evaluation,
            self._view,
            self._plan,
            followups=(),
            failed=self._failed,
            queued=dict(self._queued),
            find_eligible_classes=None,
            missing_resources=[],
            deployment_id=self._deployment.latest_id,
            now_ns=self._now_ns,
            ids=self._ids,
        )
        if self._blocked_node is not None and self._stacks is not None:
            self._block(outcome, *self._blocked_node, self._stacks)
        return outcome

    def _diff(self) -> dict[str, GroupDiff]:
        job, columns = self._job, self._view.columns
        candidates = self._candidates
        waiting: set[str] = set()
        if job is not None and self._stacks is not None:
            for row in np.flatnonzero(self._stacks.candidate_mask).tolist():
                node = node_at(columns, row)
                candidates[node.id] = node
            used = {a.node_id: self._view.node(a.node_id) for a in self._allocations}
            waiting = {
                node_id
                for node_id, node in used.items()
                if node is not None
                and not node.is_ready
                and job.node_pool in (ALL_POOLS, node.node_pool)
            }
        world = SystemContext(
            job=job,
            is_sysbatch=self._is_sysbatch,
            tainted=self._tainted,
            candidates=candidates,
            waiting=waiting,
            group_of=self._versions.group_of,
            update_kind=self._decision.kind,
            is_current=self._decision.is_current,
            now_ns=self._now_ns,
        )
        return diff_system(world, self._allocations)

    def _note(self, name: str, diff: GroupDiff) -> None:
        """What does not need a decision about nodes."""
        changes = self._changes
        changes.stops += [Stop(a, NOT_NEEDED) for a in diff.stop]
        changes.stops += [Stop(a, NODE_TAINTED) for a in diff.migrate]
        changes.stops += [Stop(a, LOST, ClientStatus.LOST) for a in diff.lost]
        changes.disconnects += [Disconnect(a, "") for a in diff.disconnecting]
        replaced = {a.id for a in (*diff.update, *diff.stop)}
        changes.reconnects += [a for a in diff.reconnecting if a.id not in replaced]
        current = {a.id for a in diff.reconnecting if self._decision.is_current(a)}
        changes.in_place += [a for a in diff.in_place if not a.is_terminal and a.id not in current]
        changes.desired[name] = DesiredUpdates(
            ignore=len(diff.ignore),
            migrate=len(diff.migrate),
            stop=len(diff.stop),
            in_place_update=len(diff.in_place),
            destructive_update=len(diff.update),
            disconnect=len(diff.disconnecting),
            reconnect=len(diff.reconnecting),
        )

    def _run(self, job: Job, stacks: Stacks, diffs: dict[str, GroupDiff]) -> None:
        write_changes(self._plan, self._changes, stacks)
        self._deployment.allowed = all(map(_knows_deployments, self._candidates.values()))
        runs = []
        for group in job.task_groups:
            self._queued[group.name] += 0
            if group.name in diffs and group.count > 0:
                runs.append(self._begin_group(job, group, diffs[group.name], stacks))
        # Only now it is known whether there is a new deployment to belong to.
        write_in_place(
            self._plan, self._changes.in_place, job, self._deployment.latest_id, self._view
        )
        builder = PlanBuilder(self._plan, self._evaluation, self._ids)
        placer = Placer(
            stacks,
            builder,
            self._evaluation,
            self._versions.group_of,
            self._ids,
            self._now_ns,
            one_node_each=True,
        )
        for run in runs:
            self._place_group(job, run, stacks, placer)

    def _begin_group(self, job: Job, group: TaskGroup, diff: GroupDiff, stacks: Stacks) -> GroupRun:
        """Leave out the nodes that do not pass the checks, and look at the deployment."""
        stack = stacks.of(job, group)
        selector = stacks.selector(stack)
        feasible = stack.feasible(stacks.candidate_mask)
        rows = stacks.columns.rows
        run = GroupRun(group, diff)
        for missing in diff.place:
            row = rows[missing.node.id]
            reason = self._first_failure(stack, row)
            reason = reason or selector.refusal(row, _name(job, group, missing.name_index))
            if reason:
                run.filtered.append((missing.node, reason))
            else:
                run.wanted.append(missing)
        for allocation in diff.update:
            row = rows[allocation.node_id]
            if feasible[row] and not is_refused(stacks, stack, allocation, row):
                run.updates.append(allocation)
            else:
                self._leave(allocation)
                stacks.stop(allocation)
        if not self._is_sysbatch:
            run.staying = len(diff.ignore) + len(diff.in_place) + len(run.updates)
        total = run.staying + len(run.wanted)
        is_busy = bool(run.wanted or diff.update or diff.migrate)
        run.rolling = self._deployment.begin(group, diff, self._allocations, total, is_busy)
        return run

    def _leave(self, allocation: Allocation) -> None:
        """Its node does not pass the new version's checks: it ends, and nothing follows there."""
        if not allocation.is_server_terminal:
            self._plan.stops.append(
                AllocStop(
                    alloc_id=allocation.id,
                    node_id=allocation.node_id,
                    desired_description=UPDATING,
                )
            )

    @staticmethod
    def _first_failure(stack: GroupStack, row: int) -> str:
        return next((check.reason for check in stack.checks if not check.mask[row]), "")

    def _place_group(self, job: Job, run: GroupRun, stacks: Stacks, placer: Placer) -> None:
        group, diff, rolling = run.group, run.diff, run.rolling
        desired = self._changes.desired.get(group.name) or DesiredUpdates()
        placed = 0
        for missing in run.wanted:
            placement = Placement(group, missing.name_index, previous=missing.previous)
            if self._place_on(missing.node, placement, job, stacks, placer, run):
                placed += 1
        self._update(job, run, stacks, placer)
        if rolling.is_canarying:
            self._queued[group.name] += len(run.updates) - rolling.canaries
            desired.canary = rolling.desired_canaries
        wanted = len(run.wanted) - run.refused
        desired.place = wanted if self._is_sysbatch else run.staying + placed
        self._deployment.set_total(group.name, desired.place)
        if not wanted and not run.staying and diff.place and group.name not in self._failed:
            self._failed[group.name] = all_filtered(run.filtered)

    def _update(self, job: Job, run: GroupRun, stacks: Stacks, placer: Placer) -> None:
        """As many as may be now; a node without room does not hold back the others."""
        group, rolling = run.group, run.rolling
        updated = 0
        for allocation in run.updates:
            if updated >= rolling.limit:
                return
            target = node_at(stacks.columns, stacks.columns.rows[allocation.node_id])
            canary = updated < rolling.canaries
            index = allocation.name_index
            update = Placement(group, index, allocation, canary=canary, stops_previous=True)
            alloc_id = self._place_on(target, update, job, stacks, placer, run)
            updated += bool(alloc_id)
            if alloc_id and canary:
                self._deployment.placed_canary(group.name, alloc_id)

    def _place_on(
        self,
        node: Node,
        placement: Placement,
        job: Job,
        stacks: Stacks,
        placer: Placer,
        run: GroupRun,
    ) -> str:
        """The new allocation's id; empty: the node has no room, or what was placed before it
        keeps the node from taking it, which is noted."""
        group = placement.group
        stack = stacks.of(job, group)
        selector = stacks.selector(stack)
        row = stacks.columns.rows[node.id]
        request = Request(_name(job, group, placement.name_index))
        if placement.stops_previous and placement.previous is not None:
            stacks.stop(placement.previous)
        reason = selector.refusal(row, request.name)
        if reason:
            run.filtered.append((node, reason))
            if placement.stops_previous and placement.previous is not None:
                self._leave(placement.previous)
            else:
                run.refused += 1
            return ""
        over_quota = placer.over_quota(stack)
        choice = selector.choose_row(row, request) if over_quota is None else None
        eviction = None
        if choice is None and over_quota is None:
            eviction = placer.evictions.on(selector, row, request)
            choice = eviction.choice(row) if eviction is not None else None
        if choice is not None:
            return placer.commit(
                placement,
                job,
                stack,
                selector,
                choice,
                request,
                self._deployment.active_id,
                {} if eviction is None else {row: eviction},
            )
        if placement.stops_previous and placement.previous is not None:
            stacks.unstop(placement.previous, held_claim=False)
        self._queued[group.name] += 1
        known = self._failed.get(group.name)
        if known is not None:
            coalesce(known, stack.group)
            return ""
        one = _only_row(stacks.candidates, row)
        metric = failure(
            stacks.proposed,
            one,
            stack.checks,
            selector,
            ClassEligibility(stacks.columns),
            request,
        )
        metric.nodes_in_pool = len(stacks.candidates.rows)
        self._failed[group.name] = over_quota or metric
        self._quota_reached = placer.quota_reached
        if self._blocked_node is None:
            self._blocked_node = (node, group)
        return ""

    def _block(
        self, outcome: SchedulingOutcome, node: Node, group: TaskGroup, stacks: Stacks
    ) -> None:
        """Woken when the first full node changes."""
        blocked = blocked_evaluation(self._evaluation, self._ids.new())
        blocked.node_id = node.id
        blocked.quota_limit_reached = self._quota_reached
        stack = stacks.of(stacks.job, group)
        eligibility = stacks.eligibility
        row = stacks.columns.rows[node.id]
        only = ClassEligibility(stacks.columns)
        only.filter(np.array([row]), group.name, stack.checks)
        blocked.escaped_computed_class = eligibility.has_escaped
        blocked.class_eligibility = None if eligibility.has_escaped else only.class_eligibility()
        blocked.snapshot_index = outcome.evaluation.snapshot_index
        blocked.create_time_ns = blocked.modify_time_ns = self._now_ns
        outcome.blocked = blocked


def _name(job: Job, group: TaskGroup, index: int) -> str:
    return alloc_name(job.id, group.name, index)


def _only_row(candidates: Candidates, row: int) -> Candidates:
    return Candidates(np.array([row]), candidates.pool, candidates.available)


def _knows_deployments(node: Node) -> bool:
    """Agents report the health of system jobs since version 1.11 of Nomad's protocol."""
    version = parse_version(node.attributes.get("nomad.version", ""))
    return version is None or version.segments >= _FIRST_WITH_DEPLOYMENTS
