"""Who is handed what, and what becomes of it when a worker's process starts anew."""

from __future__ import annotations

import asyncio

from orchgit.clock import FakeClock
from orchgit.control.eval_broker import Delivery, EvalBroker, Holder
from orchgit.control.eval_queue import EvalQueue
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


def test_a_worker_is_handed_as_many_as_it_takes_and_are_ready() -> None:
    async def run() -> None:
        queue = queue_of(3)
        assert jobs_of(await queue.dequeue(SERVICE, 1, limit=2)) == ["job-0", "job-1"]
        assert jobs_of(await queue.dequeue(SERVICE, 1, limit=2)) == ["job-2"]

    asyncio.run(run())


def test_each_that_waits_is_handed_one_before_anybody_is_handed_more() -> None:
    async def run() -> None:
        queue = queue_of(0)
        waiting = [asyncio.create_task(queue.dequeue(SERVICE, 1, limit=4)) for _ in range(2)]
        await asyncio.sleep(0)
        queue.enqueue(evaluations(3))
        assert sorted(map(len, await asyncio.gather(*waiting))) == [1, 2]

    asyncio.run(run())


def test_what_an_earlier_process_of_a_worker_held_is_delivered_again() -> None:
    async def run() -> None:
        clock = FakeClock()
        queue = queue_of(2, clock)
        ((lost,),) = [await queue.dequeue(SERVICE, 1, holder=Holder("w", "first"))]
        ((other,),) = [await queue.dequeue(SERVICE, 1, holder=Holder("v", "only"))]
        waiting = asyncio.create_task(queue.dequeue(SERVICE, 9, holder=Holder("w", "first")))
        await asyncio.sleep(0)
        task = asyncio.create_task(queue.run())
        again = asyncio.create_task(queue.dequeue(SERVICE, 9, holder=Holder("w", "second")))
        assert await asyncio.wait_for(waiting, 5) == [], "nothing is handed to the dead"
        await clock.advance(2)
        assert jobs_of(await asyncio.wait_for(again, 5)) == [lost.evaluation.job_id]
        assert not queue.holds(lost.evaluation.id, lost.token)
        assert queue.holds(other.evaluation.id, other.token), "another worker's is left alone"
        task.cancel()

    asyncio.run(run())


def test_the_same_process_asking_again_loses_nothing() -> None:
    async def run() -> None:
        queue = queue_of(1)
        (held,) = await queue.dequeue(SERVICE, 1, holder=Holder("w", "first"))
        await queue.dequeue(SERVICE, 0, holder=Holder("w", "first"))
        assert queue.holds(held.evaluation.id, held.token)

    asyncio.run(run())
