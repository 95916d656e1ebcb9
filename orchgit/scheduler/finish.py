"""Turns what was decided into the outcome: the evaluation to store, the blocked one to make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchgit.model.evaluation import (
    AllocMetric,
    DesiredUpdates,
    EvalStatus,
    Evaluation,
    PlanAnnotations,
)
from orchgit.model.plan import Plan
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.outcome import EligibleClasses, SchedulingOutcome, blocked_evaluation
from orchgit.scheduler.ports import ClusterView


@dataclass(slots=True)
class Unplaced:
    """What could not be placed, and what a blocked evaluation has to know about it."""

    failed: dict[str, AllocMetric] = field(default_factory=dict)
    """Group -> why."""
    queued: Counter[str] = field(default_factory=Counter)
    """Group -> how many."""
    missing_resources: list[str] = field(default_factory=list)
    """What is missing that no node has, such as a CSI volume."""
    quota_reached: str = ""
    """The quota that left no room."""
    find_eligible_classes: Callable[[], EligibleClasses] | None = None


def complete(
    inputs: SchedulingInputs,
    plan: Plan,
    desired: dict[str, DesiredUpdates],
    unplaced: Unplaced,
    *,
    deployment_id: str,
    followups: Sequence[Evaluation] = (),
) -> SchedulingOutcome:
    """The evaluation is done; what could not be placed goes on in a blocked evaluation."""
    evaluation, view = inputs.evaluation, inputs.view
    _annotate(plan, desired)
    ended = replace(
        evaluation,
        status=EvalStatus.COMPLETE,
        status_description="",
        failed_tg_allocs=unplaced.failed or None,
        queued_allocations=dict(unplaced.queued),
        deployment_id=deployment_id,
        plan_annotations=plan.annotations if evaluation.annotate_plan else None,
        desired_updates=plan.annotations.counts() if plan.annotations else None,
        snapshot_index=view.index,
        modify_time_ns=inputs.now_ns,
    )
    later = [replace(each, snapshot_index=view.index) for each in followups]
    outcome = SchedulingOutcome(
        ended, followups=later, find_eligible_classes=unplaced.find_eligible_classes
    )
    if evaluation.annotate_plan or _changes_something(plan, view):
        outcome.plan = plan
    if unplaced.failed and evaluation.type in ("service", "batch"):
        _block(outcome, inputs, unplaced)
    return outcome


def _annotate(plan: Plan, desired: dict[str, DesiredUpdates]) -> None:
    """Puts the wanted changes into the plan."""
    group_of = {
        columns.alloc_ids[row]: columns.task_group
        for columns in plan.placements
        for row in columns.preempts_of
    }
    for preemption in plan.preemptions:
        group = group_of.get(preemption.preempted_by)
        if group in desired:
            desired[group].preemptions += 1
    plan.annotations = PlanAnnotations(
        desired_tg_updates=desired,
        preempted_allocs=[
            {"ID": preemption.alloc_id, "NodeID": preemption.node_id}
            for preemption in plan.preemptions
        ]
        or None,
    )


def _changes_something(plan: Plan, view: ClusterView) -> bool:
    """A deployment that is in the plan as it is stored already changes nothing."""
    if plan.is_no_op or plan.deployment is None:
        return not plan.is_no_op
    if plan.stops or plan.placements or plan.updates or plan.deployment_updates:
        return True
    return plan.deployment != view.latest_deployment(plan.namespace, plan.job_id)


def _block(outcome: SchedulingOutcome, inputs: SchedulingInputs, unplaced: Unplaced) -> None:
    evaluation = inputs.evaluation
    was_blocked = evaluation.status == EvalStatus.BLOCKED
    blocked = (
        outcome.evaluation if was_blocked else blocked_evaluation(evaluation, inputs.ids.new())
    )
    blocked.status = EvalStatus.BLOCKED
    blocked.snapshot_index = outcome.evaluation.snapshot_index
    blocked.quota_limit_reached = unplaced.quota_reached
    blocked.missing_non_node_resources = sorted(set(unplaced.missing_resources)) or None
    blocked.failed_tg_allocs = outcome.evaluation.failed_tg_allocs
    if outcome.find_eligible_classes is not None:
        blocked.escaped_computed_class, blocked.class_eligibility = outcome.find_eligible_classes()
    if was_blocked:
        blocked.status_description = evaluation.status_description
        blocked.desired_updates = None
    else:
        blocked.create_time_ns = blocked.modify_time_ns = outcome.evaluation.modify_time_ns
        outcome.blocked = blocked
        outcome.evaluation.blocked_eval = blocked.id
