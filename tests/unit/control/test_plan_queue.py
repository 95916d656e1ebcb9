"""The queue of plans: how long they wait for their turn, and for their answer."""

from __future__ import annotations

import asyncio

from orchgit.clock import FakeClock
from orchgit.control.plans.queue import PlanQueue
from orchgit.model.plan import Plan, PlanResult


def test_waits_for_the_turn_and_for_the_answer_are_counted() -> None:
    async def run() -> None:
        clock = FakeClock()
        queue = PlanQueue(clock.monotonic_s)
        submitted = asyncio.create_task(queue.submit(Plan(eval_id="e")))
        while not len(queue):
            await asyncio.sleep(0)
        await clock.advance(2.0)
        pending = await queue.next()
        await clock.advance(1.0)
        pending.answer.set_result(PlanResult())
        await submitted
        assert (queue.counts.queued.total_s, queue.counts.submit.total_s) == (2.0, 3.0)

    asyncio.run(run())
