"""Places the allocations of a system or sysbatch job, node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchgit.model.allocation import Allocation, alloc_name
from orchgit.model.evaluation import AllocMetric, DesiredUpdates, Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.job import JobType
from orchgit.model.node import Node
from orchgit.model.plan import AllocStop, Plan
from orchgit.scheduler.feasibility.eligibility import ClassEligibility
from orchgit.scheduler.finish import Unplaced
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.outcome import blocked_evaluation
from orchgit.scheduler.placement.attempt import Attempt
from orchgit.scheduler.placement.candidates import Candidates, node_at
from orchgit.scheduler.placement.explain import Explainer, coalesce
from orchgit.scheduler.placement.place import Placer
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.plan_changes import write_in_place
from orchgit.scheduler.ranking.selector import Request
from orchgit.scheduler.reconcile.changes import UPDATING, JobChanges, Placement
from orchgit.scheduler.reconcile.classify import GroupOf
from orchgit.scheduler.reconcile.system import GroupDiff, Missing
from orchgit.scheduler.reconcile.system_deployment import SystemDeployment, UpdateAllowance
from orchgit.scheduler.update_decision import is_refused
from orchgit.version_constraints import parse_version

_FIRST_WITH_DEPLOYMENTS = (1, 11, 0)


@dataclass(slots=True)
class _GroupRun:
    """One group's part of the evaluation."""

    group: TaskGroup
    diff: GroupDiff
    wanted: list[Missing] = field(default_factory=list)
    updates: list[Allocation] = field(default_factory=list)
    filtered: list[tuple[Node, str]] = field(default_factory=list)
    """Nodes that lack an allocation and do not pass the checks, with the reason."""
    refused: int = 0
    """How many of `wanted` are kept from their nodes by allocations placed before them."""
    staying: int = 0
    allowance: UpdateAllowance = field(default_factory=lambda: UpdateAllowance(0))


class SystemPlacement:
    """Fills the plan of one evaluation; `run` first, then `blocked_evaluation`."""

    def __init__(
        self,
        inputs: SchedulingInputs,
        stacks: Stacks,
        plan: Plan,
        changes: JobChanges,
        deployment: SystemDeployment,
        unplaced: Unplaced,
    ) -> None:
        self._inputs = inputs
        self._stacks = stacks
        self._job = stacks.job
        self._is_sysbatch = inputs.evaluation.type == JobType.SYSBATCH
        self._plan = plan
        self._changes = changes
        self._deployment = deployment
        self._unplaced = unplaced
        self._first_full: tuple[Node, TaskGroup] | None = None
        """The first node without room, and the group that had none there."""

    @staticmethod
    def know_deployments(nodes: Iterable[Node]) -> bool:
        """Whether all agents report the health of system jobs: since version 1.11 of Nomad's
        protocol."""
        versions = (parse_version(node.attributes.get("nomad.version", "")) for node in nodes)
        return all(
            version is None or version.segments >= _FIRST_WITH_DEPLOYMENTS for version in versions
        )

    def run(
        self, diffs: dict[str, GroupDiff], allocations: Sequence[Allocation], group_of: GroupOf
    ) -> None:
        runs = []
        for group in self._job.task_groups:
            self._unplaced.queued[group.name] += 0
            if group.name in diffs and group.count > 0:
                runs.append(self._begin_group(group, diffs[group.name], allocations))
        # Only now it is known whether there is a new deployment to belong to.
        deployment_id = self._deployment.latest_id
        write_in_place(
            self._plan, self._changes.in_place, self._job, deployment_id, self._inputs.view
        )
        builder = PlanBuilder(self._plan, self._inputs.evaluation, self._inputs.ids)
        placer = Placer(
            self._inputs, self._stacks, builder, group_of, self._unplaced, one_node_each=True
        )
        for run in runs:
            self._place_group(run, placer)

    def _begin_group(
        self, group: TaskGroup, diff: GroupDiff, allocations: Sequence[Allocation]
    ) -> _GroupRun:
        """Leaves out the nodes that do not pass the checks, and looks at the deployment."""
        stacks, run = self._stacks, _GroupRun(group, diff)
        stack = stacks.of(self._job, group)
        selector = stacks.selector(stack)
        feasible = stack.feasible(stacks.candidate_mask)
        rows = stacks.columns.rows
        for missing in diff.place:
            row = rows[missing.node.id]
            failed = (check.reason for check in stack.checks if not check.mask[row])
            reason = next(failed, "") or selector.refusal(
                row, self._name(group, missing.name_index)
            )
            if reason:
                run.filtered.append((missing.node, reason))
            else:
                run.wanted.append(missing)
        for allocation in diff.update:
            row = rows[allocation.node_id]
            if feasible[row] and not is_refused(stacks, stack, allocation, row):
                run.updates.append(allocation)
            else:
                self._stop_without_successor(allocation)
                stacks.stop(allocation)
        if not self._is_sysbatch:
            run.staying = len(diff.ignore) + len(diff.in_place) + len(run.updates)
        total = run.staying + len(run.wanted)
        is_busy = bool(run.wanted or diff.update or diff.migrate)
        run.allowance = self._deployment.begin(group, diff, allocations, total, is_busy)
        return run

    def _name(self, group: TaskGroup, index: int) -> str:
        return alloc_name(self._job.id, group.name, index)

    def _stop_without_successor(self, allocation: Allocation) -> None:
        """Its node does not pass the new version's checks."""
        if not allocation.is_server_terminal:
            self._plan.stops.append(
                AllocStop(
                    alloc_id=allocation.id,
                    node_id=allocation.node_id,
                    desired_description=UPDATING,
                )
            )

    def _place_group(self, run: _GroupRun, placer: Placer) -> None:
        group, diff, allowance = run.group, run.diff, run.allowance
        unplaced = self._unplaced
        desired = self._changes.desired.get(group.name) or DesiredUpdates()
        placed = 0
        for missing in run.wanted:
            placement = Placement(group, missing.name_index, previous=missing.previous)
            placed += bool(self._place_on(missing.node, placement, placer, run))
        self._update(run, placer)
        if allowance.is_canarying:
            unplaced.queued[group.name] += len(run.updates) - allowance.canaries
            desired.canary = allowance.desired_canaries
        wanted = len(run.wanted) - run.refused
        desired.place = wanted if self._is_sysbatch else run.staying + placed
        self._deployment.set_total(group.name, desired.place)
        if not wanted and not run.staying and diff.place and group.name not in unplaced.failed:
            unplaced.failed[group.name] = _all_filtered(run.filtered)

    def _update(self, run: _GroupRun, placer: Placer) -> None:
        """Replaces as many allocations as may be now; a node without room does not hold back the
        others."""
        group, allowance, columns = run.group, run.allowance, self._stacks.columns
        updated = 0
        for allocation in run.updates:
            if updated >= allowance.limit:
                return
            target = node_at(columns, columns.rows[allocation.node_id])
            canary = updated < allowance.canaries
            index = allocation.name_index
            update = Placement(group, index, allocation, canary=canary, stops_previous=True)
            alloc_id = self._place_on(target, update, placer, run)
            updated += bool(alloc_id)
            if alloc_id and canary:
                self._deployment.placed_canary(group.name, alloc_id)

    def _place_on(self, node: Node, placement: Placement, placer: Placer, run: _GroupRun) -> str:
        """Returns the new allocation's id. Empty: the node has no room, or allocations placed
        before keep the node from taking it, which is noted."""
        group, stacks = placement.group, self._stacks
        stack = stacks.of(self._job, group)
        selector = stacks.selector(stack)
        row = stacks.columns.rows[node.id]
        request = Request(self._name(group, placement.name_index))
        replaced = placement.previous if placement.stops_previous else None
        if replaced is not None:
            stacks.stop(replaced)
        reason = selector.refusal(row, request.name)
        if reason:
            run.filtered.append((node, reason))
            if replaced is not None:
                self._stop_without_successor(replaced)
            else:
                run.refused += 1
            return ""
        over_quota = placer.over_quota(stack)
        choice = selector.choose_row(row, request) if over_quota is None else None
        eviction = None
        if choice is None and over_quota is None:
            eviction = placer.preemptions.on(selector, row, request)
            choice = eviction.choice(row) if eviction is not None else None
        if choice is not None:
            attempt = Attempt(placement, stack, selector, request, self._deployment.active_id)
            return placer.commit(attempt, choice, {} if eviction is None else {row: eviction})
        if replaced is not None:
            stacks.unstop(replaced, held_claim=False)
        self._unplaced.queued[group.name] += 1
        known = self._unplaced.failed.get(group.name)
        if known is not None:
            coalesce(known, stack.group)
            return ""
        all_nodes = stacks.candidates
        only = Candidates(np.array([row]), all_nodes.pool, all_nodes.available)
        explainer = Explainer(stacks.proposed, ClassEligibility(stacks.columns))
        metric = explainer.failure(only, stack.checks, selector, request)
        metric.nodes_in_pool = len(all_nodes.rows)
        self._unplaced.failed[group.name] = over_quota or metric
        if self._first_full is None:
            self._first_full = (node, group)
        return ""

    def blocked_evaluation(self) -> Evaluation | None:
        """Waits for the first full node to change; None: all nodes had room."""
        if self._first_full is None:
            return None
        node, group = self._first_full
        stacks, now_ns = self._stacks, self._inputs.now_ns
        blocked = blocked_evaluation(self._inputs.evaluation, self._inputs.ids.new())
        blocked.node_id = node.id
        blocked.quota_limit_reached = self._unplaced.quota_reached
        only = ClassEligibility(stacks.columns)
        row = stacks.columns.rows[node.id]
        only.filter(np.array([row]), group.name, stacks.of(self._job, group).checks)
        escaped = stacks.eligibility.has_escaped
        blocked.escaped_computed_class = escaped
        blocked.class_eligibility = None if escaped else only.class_eligibility()
        blocked.snapshot_index = self._inputs.view.index
        blocked.create_time_ns = blocked.modify_time_ns = now_ns
        return blocked


def _all_filtered(filtered: Sequence[tuple[Node, str]]) -> AllocMetric:
    """No node passes the checks: explained as a failed placement, though nothing waits."""
    classes = Counter(node.node_class for node, _ in filtered if node.node_class)
    return AllocMetric(
        nodes_evaluated=len(filtered),
        nodes_filtered=len(filtered),
        constraint_filtered=dict(Counter(reason for _, reason in filtered)),
        class_filtered=dict(classes) or None,
    )
