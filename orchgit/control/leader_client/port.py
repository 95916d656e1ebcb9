"""What a scheduler worker asks of the leader. Light: the server has it without the schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orchgit.errors import OrchgitError
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire.messages import DequeuedEvaluation
from orchgit.wire.worker_messages import CloseEvaluation


class LeaderPort(Protocol):
    """The leader, as a worker sees it."""

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        """One when it comes, up to `limit` if more are ready; none when the time is over."""
        ...

    async def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None: ...

    async def close(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> None:
        """Store the outcome and end the evaluation."""
        ...

    async def submit(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        """Without a refresh index the evaluation is closed with `closing`."""
        ...


class NearLeaderPort(LeaderPort, Protocol):
    """The leader, as a server asks it for its workers."""

    async def close_all(self, outcomes: Sequence[CloseEvaluation]) -> Sequence[OrchgitError | None]:
        """Like `close` of each; tells for each what went wrong."""
        ...
