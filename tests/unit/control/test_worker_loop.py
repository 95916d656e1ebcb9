"""The worker's loop with leader and views from lists: each delivery ends in an ack or a nack."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from orchgit.clock import FakeClock
from orchgit.control.worker_loop import WorkerLimits, WorkerLoop
from orchgit.errors import ConflictError, RefusedError, TimedOutError, UnavailableError
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.plan import AllocStop, Plan, PlanResult
from orchgit.scheduler.outcome import Outcome
from orchgit.wire.messages import DequeueReply
from tests.support.factories import make_evaluation


@dataclass
class ListLeader:
    """Answers plans from a list, and notes what it is told."""

    results: list[PlanResult | Exception] = field(default_factory=list)
    deliveries: list[Evaluation] = field(default_factory=list)
    told: list[tuple[Any, ...]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def dequeue(self, types: Sequence[str], timeout_s: float) -> DequeueReply:
        if self.deliveries:
            return DequeueReply(evaluation=self.deliveries.pop(), token="t", wait_index=5)
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("never woken")

    async def ack(self, eval_id: str, token: str) -> None:
        self.told.append(("ack", token))

    async def nack(self, eval_id: str, token: str) -> None:
        self.told.append(("nack", token))

    async def store(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> int:
        self.told.append(("store", *[evaluation.status for evaluation in evaluations]))
        return 1

    async def submit(self, plan: Plan) -> PlanResult:
        self.told.append(("plan", plan.eval_token))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


@dataclass
class LateViews:
    """A store at `index`; who waits for more than that waits until it is told."""

    index: int = 10
    waits: list[tuple[int, float]] = field(default_factory=list)
    caught_up: asyncio.Event = field(default_factory=asyncio.Event)
    patience: int = 1

    async def reach(self, index: int, timeout_s: float) -> None:
        self.waits.append((index, timeout_s))
        if index <= self.index:
            return
        if len(self.waits) <= self.patience:
            raise TimedOutError("cannot read: too far behind")
        await self.caught_up.wait()

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        yield self


def decide(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> Outcome:
    """Stop something, and call it complete."""
    done = msgspec.structs.replace(evaluation, status=EvalStatus.COMPLETE)
    return Outcome(done, plan=Plan(eval_id=evaluation.id, stops=[AllocStop(alloc_id="a")]))


def fail(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> Outcome:
    raise ZeroDivisionError


def loop_of(leader: ListLeader, views: LateViews, schedule: Any = decide) -> WorkerLoop:
    limits = WorkerLimits(sync_limit_s=5.0, backoff_s=30.0)
    return WorkerLoop(leader, views, schedule, FakeClock(), SequentialIds(), ["service"], limits)


def handle(leader: ListLeader, views: LateViews | None = None, schedule: Any = decide) -> list[Any]:
    async def run() -> None:
        loop = loop_of(leader, views or LateViews(), schedule)
        await asyncio.wait_for(loop.handle(make_evaluation(), "t", 5), 5)

    asyncio.run(run())
    return leader.told


def test_a_committed_plan_is_recorded_and_acknowledged() -> None:
    told = handle(ListLeader([PlanResult(alloc_index=9)]))
    assert told == [("plan", "t"), ("store", "complete"), ("ack", "t")]


def test_a_partly_rejected_plan_is_made_again_on_a_newer_view() -> None:
    views = LateViews(index=99)
    told = handle(ListLeader([PlanResult(refresh_index=77), PlanResult()]), views)
    assert [each[0] for each in told] == ["plan", "plan", "store", "ack"]
    assert views.waits[-1][0] == 77


def test_after_too_many_rejections_the_evaluation_fails_and_blocks() -> None:
    told = handle(ListLeader([PlanResult(refresh_index=7)] * 50))
    assert sum(each[0] == "plan" for each in told) == 5
    assert told[-2:] == [("store", "failed", "blocked"), ("ack", "t")]


def test_a_failure_gives_the_evaluation_back() -> None:
    assert handle(ListLeader(), schedule=fail) == [("nack", "t")]
    refused = ListLeader([RefusedError("cannot")])
    assert handle(refused)[-1] == ("nack", "t")
    gone = ListLeader([UnavailableError("cannot")])
    assert handle(gone)[-1] == ("nack", "t")


def test_an_evaluation_that_is_lost_is_left_alone() -> None:
    told = handle(ListLeader([ConflictError("cannot: not held")]))
    assert told == [("plan", "t")]


def test_behind_the_wait_index_it_gives_back_and_keeps_away_until_the_store_catches_up() -> None:
    async def run() -> None:
        leader, views = ListLeader(), LateViews(index=1)
        task = asyncio.create_task(loop_of(leader, views).handle(make_evaluation(), "t", 5))
        while len(views.waits) < 2:
            await asyncio.sleep(0)
        assert leader.told == [("nack", "t")]
        assert views.waits == [(5, 5.0), (5, 30.0)]
        assert not task.done()
        views.caught_up.set()
        await asyncio.wait_for(task, 5)

    asyncio.run(run())


def test_a_shutdown_is_no_time_out_and_gives_back_at_once() -> None:
    async def run() -> None:
        leader, views = ListLeader(), LateViews(index=1, patience=0)
        task = asyncio.create_task(loop_of(leader, views).handle(make_evaluation(), "t", 5))
        while not views.waits:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert leader.told == [("nack", "t")]
        assert len(views.waits) == 1

    asyncio.run(run())


def test_a_paused_worker_asks_for_nothing() -> None:
    async def run() -> None:
        leader, statuses = ListLeader(), []
        loop = WorkerLoop(
            leader,
            LateViews(),
            decide,
            FakeClock(),
            SequentialIds(),
            ["service"],
            on_status=statuses.append,
        )
        task = asyncio.create_task(loop.run())
        await asyncio.wait_for(leader.asked.wait(), 5)
        loop.set_paused(True)
        while statuses != ["Started", "Paused"]:
            await asyncio.sleep(0)
        leader.asked.clear()
        loop.set_paused(False)
        await asyncio.wait_for(leader.asked.wait(), 5)
        assert statuses == ["Started", "Paused", "Started"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
