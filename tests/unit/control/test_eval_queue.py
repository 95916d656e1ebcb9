"""Who is handed what, and what becomes of it when a worker's process starts anew."""

from __future__ import annotations

import asyncio
import math

import pytest

from orchgit.clock import FakeClock
from orchgit.control.evaluations.broker import Delivery, EvalBroker, WorkerSession
from orchgit.control.evaluations.queue import BEHIND_S, STUCK_S, EvalQueue
from orchgit.errors import NotLeaderError
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import Evaluation
from tests.support.factories import make_id

SERVICE = ("service",)


def evaluations(count: int) -> list[Evaluation]:
    return [
        Evaluation(id=make_id("000000e1"), job_id=f"job-{number}", create_index=number + 1)
        for number in range(count)
    ]


def queue_of(count: int, clock: FakeClock | None = None) -> EvalQueue:
    queue = EvalQueue(EvalBroker(), clock or FakeClock(), SequentialIds())
    queue.enqueue(evaluations(count))
    return queue


def jobs_of(deliveries: list[Delivery]) -> list[str]:
    return [delivery.evaluation.job_id for delivery in deliveries]


def test_dequeue_returns_ready_evaluations_up_to_its_limit() -> None:
    async def run() -> None:
        queue = queue_of(3)
        assert jobs_of(await queue.dequeue(SERVICE, 1, limit=2)) == ["job-0", "job-1"]
        assert jobs_of(await queue.dequeue(SERVICE, 1, limit=2)) == ["job-2"]

    asyncio.run(run())


def test_every_waiting_worker_gets_one_evaluation_before_any_gets_two() -> None:
    async def run() -> None:
        queue = queue_of(0)
        waiting = [asyncio.create_task(queue.dequeue(SERVICE, 1, limit=4)) for _ in range(2)]
        await asyncio.sleep(0)
        queue.enqueue(evaluations(3))
        assert sorted(map(len, await asyncio.gather(*waiting))) == [1, 2]

    asyncio.run(run())


def test_evaluations_held_by_an_earlier_worker_process_are_delivered_again() -> None:
    async def run() -> None:
        clock = FakeClock()
        queue = queue_of(2, clock)
        ((lost,),) = [await queue.dequeue(SERVICE, 1, session=WorkerSession("w", "first"))]
        ((other,),) = [await queue.dequeue(SERVICE, 1, session=WorkerSession("v", "only"))]
        waiting = asyncio.create_task(
            queue.dequeue(SERVICE, 9, session=WorkerSession("w", "first"))
        )
        await asyncio.sleep(0)
        task = asyncio.create_task(queue.run())
        again = asyncio.create_task(queue.dequeue(SERVICE, 9, session=WorkerSession("w", "second")))
        assert await asyncio.wait_for(waiting, 60) == [], "nothing is handed to the dead"
        await clock.advance(2)
        assert jobs_of(await asyncio.wait_for(again, 60)) == [lost.evaluation.job_id]
        assert not queue.holds(lost.evaluation.id, lost.token)
        assert queue.holds(other.evaluation.id, other.token), "another worker's is left alone"
        task.cancel()

    asyncio.run(run())


def test_repeated_dequeue_by_one_process_keeps_its_evaluations() -> None:
    async def run() -> None:
        queue = queue_of(1)
        (held,) = await queue.dequeue(SERVICE, 1, session=WorkerSession("w", "first"))
        await queue.dequeue(SERVICE, 0, session=WorkerSession("w", "first"))
        assert queue.holds(held.evaluation.id, held.token)

    asyncio.run(run())


LOCAL = WorkerSession("n", "only", local=True)
REMOTE = WorkerSession("f", "only")


def test_remote_workers_get_evaluations_when_local_workers_are_stuck() -> None:
    async def run() -> None:
        clock = FakeClock()
        queue = queue_of(0, clock)
        loop = asyncio.create_task(queue.run())
        assert await queue.dequeue(SERVICE, 0, session=LOCAL) == [], "it is there, and busy"
        helping = asyncio.create_task(queue.dequeue(SERVICE, 9, limit=4, session=REMOTE))
        await asyncio.sleep(0)
        queue.enqueue(evaluations(6))
        await clock.advance(STUCK_S / 2)
        assert jobs_of(await queue.dequeue(SERVICE, 0, limit=2, session=LOCAL)) == [
            "job-0",
            "job-1",
        ]
        await clock.advance(STUCK_S / 2)
        assert not helping.done(), "it asked, so it gets on"
        await clock.advance(STUCK_S / 2)
        assert jobs_of(await asyncio.wait_for(helping, 60)) == ["job-2", "job-3", "job-4", "job-5"]
        queue.enqueue(evaluations(1))
        assert await queue.dequeue(SERVICE, 0, session=REMOTE) == [], "it is not behind any more"
        loop.cancel()

    asyncio.run(run())


def test_remote_workers_get_evaluations_when_local_workers_stay_behind() -> None:
    async def run() -> None:
        clock = FakeClock()
        queue = queue_of(0, clock)
        loop = asyncio.create_task(queue.run())
        await queue.dequeue(SERVICE, 0, session=LOCAL)
        queue.enqueue(evaluations(100))
        helping = asyncio.create_task(queue.dequeue(SERVICE, 9, limit=4, session=REMOTE))
        rounds = 0
        while not helping.done():
            assert len(await queue.dequeue(SERVICE, 0, limit=2, session=LOCAL)) == 2
            await clock.advance(STUCK_S / 2)
            rounds += 1
        assert rounds == math.ceil(BEHIND_S / STUCK_S * 2)
        assert len(helping.result()) == 4
        loop.cancel()

    asyncio.run(run())


def test_remote_workers_get_evaluations_at_once_without_local_workers() -> None:
    async def run() -> None:
        queue = queue_of(3)
        (first,) = await queue.dequeue(SERVICE, 0, session=REMOTE)
        queue.ack(first.evaluation.id, first.token)
        batch = WorkerSession("b", "only", local=True)
        assert await queue.dequeue(("batch",), 0, session=batch) == []
        assert jobs_of(await queue.dequeue(SERVICE, 0, session=REMOTE)) == ["job-1"], "not its type"
        assert await queue.dequeue(SERVICE, 0, session=WorkerSession("n", "1", local=True)) != []
        queue.end_session(WorkerSession("n", "1"))
        assert jobs_of(await queue.dequeue(SERVICE, 0, session=REMOTE)) == [], "a second's delay"
        queue.enqueue(evaluations(1))
        assert jobs_of(await queue.dequeue(SERVICE, 0, session=REMOTE)) == ["job-0"], "it is gone"

    asyncio.run(run())


def test_evaluation_whose_delivery_failed_is_delivered_alone() -> None:
    async def run() -> None:
        clock = FakeClock()
        queue = queue_of(4, clock)
        loop = asyncio.create_task(queue.run())
        batch = await queue.dequeue(SERVICE, 0, limit=2, session=LOCAL)
        queue.end_session(LOCAL)
        await clock.advance(2)
        next_life = WorkerSession("n", "next", local=True)
        sizes = [len(await queue.dequeue(SERVICE, 0, 8, next_life)) for _ in range(4)]
        assert sizes == [1, 1, 2, 0], "older ones first"
        assert len(batch) == 2
        loop.cancel()

    asyncio.run(run())


def test_waiting_dequeue_raises_when_leadership_is_lost() -> None:
    async def run() -> None:
        queue = queue_of(0)
        waiting = asyncio.create_task(queue.dequeue(SERVICE, 9))
        await asyncio.sleep(0)
        queue.close()
        with pytest.raises(NotLeaderError):
            await asyncio.wait_for(waiting, 60)

    asyncio.run(run())
