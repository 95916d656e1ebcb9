"""The queue of plans for the applier, ordered by priority, then by age."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchgit.control.plans.plan_counts import PlanCounts
from orchgit.errors import NotLeaderError, UnavailableError
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult

MAX_WAITING = 4096


@dataclass(order=True)
class PendingPlan:
    """A plan in the queue. The applier resolves `answer` with the result or an error.

    `followups` are stored with any part of the plan, `closing` only with all of it.
    """

    rank: tuple[int, int]
    plan: Plan = field(compare=False)
    answer: asyncio.Future[PlanResult] = field(compare=False)
    followups: list[Evaluation] = field(compare=False, default_factory=list)
    closing: list[Evaluation] = field(compare=False, default_factory=list)
    came_s: float = field(compare=False, default=0.0)


class PlanQueue:
    """The queue between the RPC handlers, which submit plans, and the one applier."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self.counts = PlanCounts()
        self._heap: list[PendingPlan] = []
        self._order = itertools.count()
        self._filled = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap)

    async def submit(
        self,
        plan: Plan,
        followups: Sequence[Evaluation] = (),
        closing: Sequence[Evaluation] = (),
    ) -> PlanResult:
        """Queues the plan and waits for the applier's answer. Raises UnavailableError when the
        queue is full."""
        if self._closed:
            raise NotLeaderError("cannot apply the plan: this server does not lead any more")
        if len(self._heap) >= MAX_WAITING:
            raise UnavailableError(f"cannot queue the plan: {MAX_WAITING} plans wait already")
        answer: asyncio.Future[PlanResult] = asyncio.get_running_loop().create_future()
        rank = (-plan.priority, next(self._order))
        came_s = self._monotonic_s()
        pending = PendingPlan(rank, plan, answer, list(followups), list(closing), came_s)
        heapq.heappush(self._heap, pending)
        self._filled.set()
        result = await answer
        self.counts.submit.observe(self._monotonic_s() - came_s)
        return result

    async def next(self) -> PendingPlan:
        """Returns the next plan; drops plans whose submitter was canceled."""
        while True:
            while self._heap:
                pending = heapq.heappop(self._heap)
                if not pending.answer.done():
                    self.counts.queued.observe(self._monotonic_s() - pending.came_s)
                    return pending
            self._filled.clear()
            await self._filled.wait()

    def close(self) -> None:
        """Fails every waiting plan because leadership is lost."""
        self._closed = True
        for pending in self._heap:
            if not pending.answer.done():
                pending.answer.set_exception(
                    NotLeaderError("cannot apply the plan: this server does not lead any more")
                )
        self._heap.clear()
