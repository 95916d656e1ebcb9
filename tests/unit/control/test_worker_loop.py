"""The worker's loop with leader and views from lists: each delivery ends in an ack or a nack."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from orchgit.clock import FakeClock
from orchgit.control.workers.loop import WorkerLimits, WorkerLoop
from orchgit.errors import ConflictError, RefusedError, TimedOutError, UnavailableError
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import AllocMetric, EvalStatus, Evaluation
from orchgit.model.plan import AllocStop, Plan, PlanResult
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.wire.messages import (
    DequeuedEvaluation,
    DequeueReply,
    DequeueRequest,
    Empty,
    EvalsRequest,
    EvalTokenRequest,
    IndexReply,
    SubmitPlanReply,
    SubmitPlanRequest,
)
from tests.support.factories import make_evaluation

SERVICE = DequeueRequest(types=["service"])


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class NoOverlay:
    """Notes what is on its way."""

    def __init__(self) -> None:
        self.resolved_index = 0
        self.told: list[tuple[str, str]] = []

    def submit(self, plan_id: str, placements: Any) -> None:
        self.told.append(("expect", plan_id))

    def resolve(self, plan_id: str, placements: Any, index: int) -> None:
        self.told.append(("settle", plan_id))


@dataclass
class ListLeader:
    """Answers plans from a list, and notes what it is told."""

    results: list[PlanResult | Exception] = field(default_factory=list)
    deliveries: list[Evaluation] = field(default_factory=list)
    told: list[tuple[Any, ...]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=_set_event)
    wait_indexes: dict[str, int] = field(default_factory=dict)

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        if self.deliveries:
            taken = self.deliveries[: request.limit]
            del self.deliveries[: request.limit]
            return DequeueReply.of(
                [
                    DequeuedEvaluation(each, "t", wait_index=self.wait_indexes.get(each.id, 5))
                    for each in taken
                ]
            )
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("never woken")

    async def ack(self, request: EvalTokenRequest) -> Empty:
        raise AssertionError("a worker ends an evaluation with its outcome")

    async def nack(self, request: EvalTokenRequest) -> Empty:
        self.told.append(("untouched" if request.untouched else "nack", request.token))
        return Empty()

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        assert request.ack
        self.told.append(("close", *[evaluation.status for evaluation in request.evaluations]))
        return IndexReply(index=1, acked=True)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        closing = [each.status for each in request.closing]
        self.told.append(("plan", request.plan.eval_token, *closing))
        await self.may_answer.wait()
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return SubmitPlanReply(result, closed=not result.refresh_index)


@dataclass
class LateViews:
    """A store at `index`; who waits for more than that waits until it is told."""

    index: int = 10
    waits: list[tuple[int, float]] = field(default_factory=list)
    caught_up: asyncio.Event = field(default_factory=asyncio.Event)
    patience: int = 1
    in_flight: NoOverlay = field(default_factory=NoOverlay)
    opened: int = 0

    async def reach(self, index: int, timeout_s: float) -> None:
        self.waits.append((index, timeout_s))
        if index <= self.index:
            return
        if len(self.waits) <= self.patience:
            raise TimedOutError("cannot read: too far behind")
        await self.caught_up.wait()

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        self.opened += 1
        yield self


def decide(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> SchedulingOutcome:
    """Stop something, and call it complete."""
    done = msgspec.structs.replace(evaluation, status=EvalStatus.COMPLETE)
    return SchedulingOutcome(
        done, plan=Plan(eval_id=evaluation.id, stops=[AllocStop(alloc_id="a")])
    )


def nothing_to_do(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> SchedulingOutcome:
    return SchedulingOutcome(msgspec.structs.replace(evaluation, status=EvalStatus.COMPLETE))


def fail(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> SchedulingOutcome:
    raise ZeroDivisionError


def loop_of(
    leader: ListLeader,
    views: LateViews,
    schedule: Any = decide,
    resting: asyncio.Event | None = None,
) -> WorkerLoop:
    limits = WorkerLimits(sync_limit_s=5.0, backoff_s=30.0, max_in_flight=3)

    def note(status: str) -> None:
        if resting is not None and status == "Paused":
            resting.set()

    return WorkerLoop(
        leader, views, schedule, FakeClock(), SequentialIds(), SERVICE, limits, on_status=note
    )


def handle(leader: ListLeader, views: LateViews | None = None, schedule: Any = decide) -> list[Any]:
    async def run() -> None:
        resting = asyncio.Event()
        loop = loop_of(leader, views or LateViews(), schedule, resting)
        leader.deliveries.append(make_evaluation())
        task = asyncio.create_task(loop.run())
        await asyncio.wait_for(leader.asked.wait(), 60)
        loop.set_paused(True)  # it rests only when everything is done
        await asyncio.wait_for(resting.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    return leader.told


def test_committed_plan_is_recorded_and_acknowledged() -> None:
    told = handle(ListLeader([PlanResult(alloc_index=9)]))
    assert told == [("plan", "t", "complete")], "plan and outcome are one entry"


def test_outcome_without_a_plan_closes_the_evaluation() -> None:
    assert handle(ListLeader(), schedule=nothing_to_do) == [("close", "complete")]


def test_partly_rejected_plan_is_made_again_on_a_newer_snapshot() -> None:
    views = LateViews(index=99)
    told = handle(ListLeader([PlanResult(refresh_index=77), PlanResult()]), views)
    assert [each[0] for each in told] == ["plan", "plan"]
    assert views.waits[-1][0] == 77


def test_evaluation_fails_and_blocks_after_too_many_rejections() -> None:
    told = handle(ListLeader([PlanResult(refresh_index=7)] * 50))
    assert sum(each[0] == "plan" for each in told) == 5
    assert told[-1] == ("close", "failed", "blocked")


def test_scheduler_failure_nacks_the_evaluation() -> None:
    assert handle(ListLeader(), schedule=fail) == [("nack", "t")]
    refused = ListLeader([RefusedError("cannot")])
    assert handle(refused)[-1] == ("nack", "t")
    gone = ListLeader([UnavailableError("cannot")])
    assert handle(gone)[-1] == ("nack", "t")


def test_evaluation_held_by_another_worker_is_left_alone() -> None:
    told = handle(ListLeader([ConflictError("cannot: not held")]))
    assert told == [("plan", "t", "complete")]


def test_worker_behind_the_wait_index_nacks_and_pauses_until_it_catches_up() -> None:
    async def run() -> None:
        leader, views = ListLeader(), LateViews(index=1)
        leader.deliveries = [make_evaluation(), make_evaluation()]
        task = asyncio.create_task(loop_of(leader, views).run())
        while len(views.waits) < 2:
            await asyncio.sleep(0)
        assert leader.told == [("nack", "t"), ("untouched", "t")], "what it has not begun too"
        assert views.waits == [(5, 5.0), (5, 30.0)]
        assert not leader.asked.is_set()
        views.caught_up.set()
        await asyncio.wait_for(leader.asked.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_shutdown_returns_held_evaluations_at_once() -> None:
    async def run() -> None:
        leader, views = ListLeader(), LateViews(index=1, patience=0)
        leader.deliveries = [make_evaluation(), make_evaluation()]
        task = asyncio.create_task(loop_of(leader, views).run())
        while not views.waits:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert leader.told == [("nack", "t"), ("untouched", "t")]
        assert len(views.waits) == 1

    asyncio.run(run())


def test_paused_worker_dequeues_nothing() -> None:
    async def run() -> None:
        leader, statuses = ListLeader(), []
        loop = WorkerLoop(
            leader,
            LateViews(),
            decide,
            FakeClock(),
            SequentialIds(),
            SERVICE,
            on_status=statuses.append,
        )
        task = asyncio.create_task(loop.run())
        await asyncio.wait_for(leader.asked.wait(), 60)
        loop.set_paused(True)
        while statuses != ["Started", "Paused"]:
            await asyncio.sleep(0)
        leader.asked.clear()
        loop.set_paused(False)
        await asyncio.wait_for(leader.asked.wait(), 60)
        assert statuses == ["Started", "Paused", "Started"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_next_evaluation_is_scheduled_while_plans_are_in_flight() -> None:
    async def run() -> None:
        leader, views = ListLeader([PlanResult(alloc_index=9)] * 5), LateViews()
        leader.may_answer.clear()
        leader.deliveries = [make_evaluation(id=f"e{number}") for number in range(5)]
        task = asyncio.create_task(loop_of(leader, views).run())
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(leader.told) == 3, "no more than three wait for their answers"
        assert [what for what, _ in views.in_flight.told] == ["expect"] * 3
        leader.may_answer.set()
        await asyncio.wait_for(leader.asked.wait(), 60)
        assert len(leader.told) == 5
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_only_the_rejected_evaluation_of_a_batch_is_scheduled_again() -> None:
    decided: list[str] = []

    def note(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> SchedulingOutcome:
        decided.append(evaluation.id)
        return decide(evaluation, view, now_ns, seed)

    async def run() -> None:
        answers = [PlanResult(alloc_index=7), PlanResult(alloc_index=8, refresh_index=8)]
        leader, views = ListLeader([*answers, PlanResult(alloc_index=9), PlanResult()]), LateViews()
        leader.deliveries = [make_evaluation(id=f"e{number}") for number in range(3)]
        task = asyncio.create_task(loop_of(leader, views, note).run())
        await asyncio.wait_for(leader.asked.wait(), 60)
        while len(leader.told) < 4:
            await asyncio.sleep(0)
        assert views.opened == 2, "the batch was looked at on one view"
        assert decided == ["e0", "e1", "e2", "e1"]
        assert views.waits[-1][0] == 8
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_only_the_failed_evaluation_of_a_batch_is_nacked() -> None:
    def fail_on_e1(evaluation: Evaluation, view: Any, now_ns: int, seed: int) -> SchedulingOutcome:
        if evaluation.id == "e1":
            raise ZeroDivisionError
        return nothing_to_do(evaluation, view, now_ns, seed)

    async def run() -> None:
        leader = ListLeader()
        leader.deliveries = [make_evaluation(id=f"e{number}") for number in range(3)]
        task = asyncio.create_task(loop_of(leader, LateViews(), fail_on_e1).run())
        await asyncio.wait_for(leader.asked.wait(), 60)
        while len(leader.told) < 3:
            await asyncio.sleep(0)
        assert sorted(leader.told) == [("close", "complete"), ("close", "complete"), ("nack", "t")]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_evaluation_with_a_higher_wait_index_waits_for_a_later_snapshot() -> None:
    async def run() -> None:
        leader, views = ListLeader(), LateViews(index=10)
        leader.deliveries = [make_evaluation(id=f"e{number}") for number in range(3)]
        leader.wait_indexes = {"e1": 10, "e2": 12}
        task = asyncio.create_task(loop_of(leader, views, nothing_to_do).run())
        while len(views.waits) < 2:
            await asyncio.sleep(0)
        assert [index for index, _ in views.waits] == [5, 12]
        assert views.opened == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_failed_placement_waits_for_in_flight_plans_and_is_tried_again() -> None:
    decided: list[str] = []

    def no_room_at_first(
        evaluation: Evaluation, view: Any, now_ns: int, seed: int
    ) -> SchedulingOutcome:
        decided.append(evaluation.id)
        outcome = decide(evaluation, view, now_ns, seed)
        if decided == ["e0", "e1"]:
            outcome.evaluation.failed_tg_allocs = {"g": AllocMetric()}
        return outcome

    async def run() -> None:
        leader, views = ListLeader([PlanResult(alloc_index=9)] * 5), LateViews()
        leader.may_answer.clear()
        leader.deliveries = [make_evaluation(id="e0"), make_evaluation(id="e1")]
        task = asyncio.create_task(loop_of(leader, views, no_room_at_first).run())
        for _ in range(100):
            await asyncio.sleep(0)
        assert decided == ["e0", "e1"]
        assert len(leader.told) == 1, "the second waits for the first plan's answer"
        leader.may_answer.set()
        await asyncio.wait_for(leader.asked.wait(), 60)
        assert decided == ["e0", "e1", "e1"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
