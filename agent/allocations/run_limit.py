"""How long an allocation may run: `max_run_duration` of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.loops import spawn
from orchgit.clock import Clock
from orchgit.model.base import NS_PER_S

EXCEEDED = "allocation exceeded max_run_duration"
"""The description that the servers get for an allocation that ran for longer."""


class RunLimit:
    """`exceeded` is called once, when the time is over."""

    def __init__(self, clock: Clock, exceeded: Callable[[], None]) -> None:
        self._clock = clock
        self._exceeded = exceeded
        self._timer: asyncio.Task[None] | None = None

    def begin(self, received_ns: int, limit_ns: int | None) -> None:
        """Count from the allocation's arrival, whatever its tasks or the agent did since."""
        if limit_ns is None:
            return
        left_ns = received_ns + limit_ns - self._clock.now_ns()
        if left_ns <= 0:
            self._exceeded()
        else:
            self._timer = spawn(self._wait(left_ns / NS_PER_S), "run limit")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        self._timer = None
        self._exceeded()
