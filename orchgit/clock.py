"""Time as a parameter: the real clock, and a fake one for tests and simulation.

Wall time is in Unix nanoseconds (`now_ns`), for what is stored; monotonic seconds (`monotonic_s`)
are for time-outs. `sleep` is the only way a loop waits for time to pass.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol

SECOND_NS = 1_000_000_000


class Clock(Protocol):
    def now_ns(self) -> int: ...

    def monotonic_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def boottime_s() -> float:
    """Monotonic seconds in which the time counts that the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class FakeClock:
    """A clock that moves only when told; sleepers wake in order as it passes them."""

    def __init__(self, now_ns: int = 1_800_000_000 * SECOND_NS) -> None:
        self._start_ns = now_ns
        self._elapsed_s = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_ns(self) -> int:
        return self._start_ns + round(self._elapsed_s * SECOND_NS)

    def monotonic_s(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), wake))
        await wake

    def stand_still(self, seconds: float) -> None:
        """Time passes and nobody wakes, as for a process that gets no processor."""
        self._elapsed_s += seconds

    async def advance(self, seconds: float) -> None:
        """Move time on, waking each sleeper at its own moment and letting it run."""
        target_s = self._elapsed_s + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= target_s:
            wake_s, _, wake = heapq.heappop(self._sleepers)
            self._elapsed_s = max(self._elapsed_s, wake_s)
            if not wake.done():
                wake.set_result(None)
            await self._settle()
        self._elapsed_s = target_s
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
