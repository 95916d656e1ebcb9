"""What one scheduling attempt decides, and what follows when plans are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchgit.ids import IdSource
from orchgit.model.evaluation import EvalStatus, EvalTrigger, Evaluation
from orchgit.model.plan import Plan, PlanResult

_ATTEMPTS = {"service": 5, "system": 5, "batch": 2, "sysbatch": 2}

BLOCKED_FAILED_PLACEMENTS = "created to place remaining allocations"
BLOCKED_MAX_PLANS = "created due to placement conflicts"

EligibleClasses = tuple[bool, dict[str, bool] | None]
"""(a constraint escapes the classes, computed class -> eligible: None if one escapes)"""


@dataclass(slots=True)
class SchedulingOutcome:
    """The worker stores `followups` before it submits `plan` (the plan refers to their ids), then
    stores `evaluation` (status, counts, explanations) and `blocked`.

    `plan` is None when there is nothing to submit. `evaluation.status` is `blocked` when a blocked
    evaluation could still not be satisfied and goes back to the blocked ones.
    """

    evaluation: Evaluation
    plan: Plan | None = None
    followups: list[Evaluation] = field(default_factory=list)
    blocked: Evaluation | None = None
    find_eligible_classes: Callable[[], EligibleClasses] | None = None
    """Looks up, when asked, which classes of nodes can take the job."""

    @property
    def new_evaluations(self) -> list[Evaluation]:
        return self.followups + ([self.blocked] if self.blocked else [])


class Attempts:
    """Counts the tries of one evaluation; a plan that made progress starts the count anew."""

    def __init__(self, eval_type: str) -> None:
        self.limit = _ATTEMPTS.get(eval_type, 2)
        self._used = 0

    @property
    def remain(self) -> bool:
        return self._used < self.limit

    def record(self, result: PlanResult | None) -> None:
        """One plan was answered with `result` (None: refused whole) and must be tried again."""
        if result is not None and (
            result.stops or result.placements or result.updates or result.deployment
        ):
            self._used = 0
        self._used += 1


def gave_up(
    evaluation: Evaluation, last: SchedulingOutcome, limit: int, ids: IdSource
) -> SchedulingOutcome:
    """The outcome when no attempt is left: failed, and for service and batch a blocked one."""
    description = f"maximum attempts reached ({limit})"
    failed = replace(
        last.evaluation,
        status=EvalStatus.FAILED,
        status_description=description,
        blocked_eval="",
        queued_allocations=_with_refused(last),
    )
    blocked = None
    if evaluation.type in ("service", "batch"):
        blocked = blocked_evaluation(evaluation, ids.new(), plan_failure=True)
        if last.find_eligible_classes is not None:
            blocked.escaped_computed_class, blocked.class_eligibility = last.find_eligible_classes()
        failed = replace(failed, blocked_eval=blocked.id)
    return SchedulingOutcome(evaluation=failed, blocked=blocked)


def _with_refused(last: SchedulingOutcome) -> dict[str, int]:
    """What was placed only in a plan that was refused is still queued."""
    queued = dict(last.evaluation.queued_allocations or {})
    for columns in last.plan.placements if last.plan is not None else ():
        queued[columns.task_group] = queued.get(columns.task_group, 0) + len(columns)
    return queued


def blocked_evaluation(
    evaluation: Evaluation, eval_id: str, *, plan_failure: bool = False
) -> Evaluation:
    """A blocked evaluation that goes on where `evaluation` could not place everything."""
    return Evaluation(
        id=eval_id,
        namespace=evaluation.namespace,
        priority=evaluation.priority,
        type=evaluation.type,
        triggered_by=EvalTrigger.MAX_PLANS if plan_failure else EvalTrigger.QUEUED_ALLOCS,
        job_id=evaluation.job_id,
        job_modify_index=evaluation.job_modify_index,
        status=EvalStatus.BLOCKED,
        status_description=BLOCKED_MAX_PLANS if plan_failure else BLOCKED_FAILED_PLACEMENTS,
        previous_eval=evaluation.id,
        rollout_id=evaluation.rollout_id,
        snapshot_index=evaluation.snapshot_index,
        create_time_ns=evaluation.modify_time_ns,
        modify_time_ns=evaluation.modify_time_ns,
    )
