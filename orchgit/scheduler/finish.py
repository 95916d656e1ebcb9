"""Turns what was decided into the outcome: the evaluation to store, the blocked one to make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from orchgit.ids import IdSource
from orchgit.model.evaluation import (
    AllocMetric,
    DesiredUpdates,
    EvalStatus,
    Evaluation,
    PlanAnnotations,
)
from orchgit.model.plan import Plan
from orchgit.scheduler.outcome import EligibleClasses, SchedulingOutcome, blocked_evaluation
from orchgit.scheduler.ports import ClusterView


def refused(evaluation: Evaluation, description: str, status: str) -> SchedulingOutcome:
    return SchedulingOutcome(replace(evaluation, status=status, status_description=description))


def annotate(plan: Plan, desired: dict[str, DesiredUpdates], group_of: dict[str, str]) -> None:
    """Put the wanted changes into the plan; `group_of`: placed allocation -> its group."""
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


def preempting_groups(plan: Plan) -> dict[str, str]:
    return {
        columns.alloc_ids[row]: columns.task_group
        for columns in plan.placements
        for row in columns.preempts_of
    }


def complete(
    evaluation: Evaluation,
    view: ClusterView,
    plan: Plan,
    *,
    followups: Sequence[Evaluation],
    failed: dict[str, AllocMetric],
    queued: dict[str, int],
    find_eligible_classes: Callable[[], EligibleClasses] | None,
    missing_resources: list[str],
    deployment_id: str,
    now_ns: int,
    ids: IdSource,
    quota_reached: str = "",
) -> SchedulingOutcome:
    """The evaluation is done; what could not be placed goes on in a blocked evaluation."""
    ended = replace(
        evaluation,
        status=EvalStatus.COMPLETE,
        status_description="",
        failed_tg_allocs=failed or None,
        queued_allocations=queued,
        deployment_id=deployment_id,
        plan_annotations=plan.annotations if evaluation.annotate_plan else None,
        desired_updates=plan.annotations.counts() if plan.annotations else None,
        snapshot_index=view.index,
        modify_time_ns=now_ns,
    )
    later = [replace(each, snapshot_index=view.index) for each in followups]
    outcome = SchedulingOutcome(ended, followups=later, find_eligible_classes=find_eligible_classes)
    if evaluation.annotate_plan or _changes_something(plan, view):
        outcome.plan = plan
    if failed and evaluation.type in ("service", "batch"):
        _block(outcome, evaluation, missing_resources, quota_reached, ids)
    return outcome


def _changes_something(plan: Plan, view: ClusterView) -> bool:
    """A deployment that is in the plan as it is stored already changes nothing."""
    if plan.is_no_op or plan.deployment is None:
        return not plan.is_no_op
    if plan.stops or plan.placements or plan.updates or plan.deployment_updates:
        return True
    return plan.deployment != view.latest_deployment(plan.namespace, plan.job_id)


def _block(
    outcome: SchedulingOutcome,
    evaluation: Evaluation,
    missing_resources: list[str],
    quota_reached: str,
    ids: IdSource,
) -> None:
    was_blocked = evaluation.status == EvalStatus.BLOCKED
    blocked = outcome.evaluation if was_blocked else blocked_evaluation(evaluation, ids.new())
    blocked.status = EvalStatus.BLOCKED
    blocked.snapshot_index = outcome.evaluation.snapshot_index
    blocked.quota_limit_reached = quota_reached
    blocked.missing_non_node_resources = sorted(set(missing_resources)) or None
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
