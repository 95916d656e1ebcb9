"""What the plan applier commits."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import PlanResult
from orchgit.replication.commands.entry import Entry


class ApplyPlan(Entry, tag="apply-plan", kw_only=True):
    """The committed part of a plan, plus evaluations it causes (preempted jobs)."""

    namespace: str
    job_id: str
    job_version: int
    eval_id: str
    result: PlanResult
    evaluations: list[Evaluation] = []
    job_create_index: int = 0
    """Of the job that was planned for. 0: not told (entries of older versions)."""


class ApplyPlanResult(ApplyPlan, tag="apply-plan-result", kw_only=True):
    """As ApplyPlan, but only an update to a job version makes the allocation one of the plan's
    evaluation; one that notes a follow-up evaluation, a disconnect or a reconnect leaves it."""

    since: ClassVar[int] = 6

    def earlier_form(self) -> ApplyPlan:
        """Returns the entry that servers of version 5 understand."""
        return ApplyPlan(**{name: getattr(self, name) for name in ApplyPlan.__struct_fields__})


PlanCommand = ApplyPlan | ApplyPlanResult
