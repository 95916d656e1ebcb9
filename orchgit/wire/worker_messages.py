"""What a scheduler worker and its own server say to each other; both are of the same version.

`call` is a number that the worker chooses: the answer has the same one.
"""

from __future__ import annotations

from orchgit.model.base import Model
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire.messages import DequeuedEvaluation


class WorkerMessage(Model, tag_field="Type"):
    call: int


class TakeEvaluations(WorkerMessage, tag="take", kw_only=True):
    """Answered by Taken."""

    types: list[str]
    timeout_s: float
    limit: int


class Withdraw(WorkerMessage, tag="withdraw", kw_only=True):
    """`call` need not be answered any more; there may be an answer on its way."""


class GiveBack(WorkerMessage, tag="give-back", kw_only=True):
    """Answered by Done, as closing is."""

    eval_id: str
    token: str
    untouched: bool = False


class CloseEvaluation(WorkerMessage, tag="close", kw_only=True):
    eval_id: str
    token: str
    evaluations: list[Evaluation]


class HandInPlan(WorkerMessage, tag="plan", kw_only=True):
    """Answered by Judged."""

    plan: Plan
    followups: list[Evaluation]
    closing: list[Evaluation]


Question = TakeEvaluations | Withdraw | GiveBack | CloseEvaluation | HandInPlan


class Taken(WorkerMessage, tag="taken", kw_only=True):
    evaluations: list[DequeuedEvaluation]


class Judged(WorkerMessage, tag="judged", kw_only=True):
    result: PlanResult


class Done(WorkerMessage, tag="done", kw_only=True):
    pass


class Failed(WorkerMessage, tag="failed", kw_only=True):
    """Instead of any other answer; `error` as `orchgit.wire.error_detail` makes it."""

    error: bytes


Reply = Taken | Judged | Done | Failed
