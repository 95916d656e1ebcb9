"""A leader that got no processor: the silence of that time is its own, not that of nodes."""

from __future__ import annotations

import asyncio
import contextlib
import random

from orchgit.clock import FakeClock
from orchgit.control.standstill import wait_and_measure
from orchgit.control.wakeup import Wakeup
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits, HeartbeatTimers
from orchgit.control.watchers.heartbeats import Heartbeats
from orchgit.ids import RandomIds
from orchgit.model.node import NodeStatus
from orchgit.services.context import UseCaseContext
from tests.support.use_cases import ready_node, with_context

LIMITS = HeartbeatLimits(min_ttl_s=10, grace_s=5, max_per_s=2, failover_s=60)


class NoChance(random.Random):
    def random(self) -> float:
        return 0.0


def test_only_a_late_wait_is_a_standstill() -> None:
    async def run() -> None:
        clock = FakeClock()
        changed = Wakeup(clock)

        async def measured(timeout_s: float | None, passes_s: float, stands_s: float) -> float:
            waiting = asyncio.create_task(wait_and_measure(changed, clock, timeout_s))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            clock.stand_still(stands_s)
            await clock.advance(passes_s)
            return await waiting

        assert await measured(1.0, 1.0, 0.0) == 0
        assert await measured(100.0, 2.5, 0.0) == 0  # sooner, to notice a standstill
        assert await measured(1.0, 0.0, 1.9) == 0
        assert await measured(1.0, 0.0, 7.0) == 7.0
        assert await measured(-5.0, 0.0, 3.0) == 3.0
        changed.set()
        assert await wait_and_measure(changed, clock, 60.0) == 0
        changed.set()
        assert await wait_and_measure(changed, clock, None) == 0

    asyncio.run(run())


def test_deadlines_leave_out_a_standstill() -> None:
    timers = HeartbeatTimers(LIMITS)
    timers.beat("a", 0.0, jitter=0.0)  # until 15
    timers.beat("b", 10.0, jitter=0.0)  # until 25
    timers.stood_still(4.0, 14.0)
    assert timers.overdue(18.9) == []
    assert timers.overdue(19.0) == ["a"]
    assert timers.overdue(28.9) == []
    assert timers.overdue(29.0) == ["b"]


def test_every_node_gets_a_fresh_ttl_after_a_long_standstill() -> None:
    timers = HeartbeatTimers(LIMITS)
    timers.beat("a", 0.0, jitter=0.0)
    timers.expect("b", 0.0)
    timers.stood_still(100.0, 114.9)
    assert timers.overdue(129.8) == []
    assert timers.overdue(130.0) == ["a"]
    assert timers.overdue(160.0) == ["b"]


def test_silent_node_is_noticed_though_the_server_stands_still_again_and_again() -> None:
    timers = HeartbeatTimers(LIMITS)
    timers.beat("a", 0.0, jitter=0.0)
    now_s = 4.0
    while not timers.overdue(now_s) and now_s < 60:
        timers.stood_still(3.0, now_s + 3.0)
        now_s += 7.0
    assert now_s == 25.0


def test_node_is_not_marked_for_the_leaders_own_standstill() -> None:
    async def work(context: UseCaseContext) -> None:
        clock = context.clock
        assert isinstance(clock, FakeClock)
        node = await ready_node(context)
        beats = Heartbeats(context.state, clock, RandomIds(), LIMITS, NoChance())
        beats.heartbeat(node.id)
        loop = asyncio.create_task(beats.run())
        await clock.advance(1.0)
        clock.stand_still(60.0)
        await clock.advance(14.0)
        with context.snapshot() as snapshot:
            assert snapshot.nodes.get(node.id).status == NodeStatus.READY  # type: ignore[union-attr]
        assert beats.expected == 1
        await clock.advance(2.0)
        async with asyncio.timeout(30):
            while True:
                with context.snapshot() as snapshot:
                    index, found = snapshot.index, snapshot.nodes.get(node.id)
                if found is not None and found.status == NodeStatus.DOWN:
                    break
                await context.state.store.watch.wait(["nodes"], index, 10)
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop

    with_context(work)
