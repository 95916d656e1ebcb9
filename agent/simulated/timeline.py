"""Many calls at later moments, by one loop and one timer."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from agent.loops import spawn
from orchgit.clock import Clock


class Timeline:
    """Calls at later moments, by one loop for all nodes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._sooner = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = spawn(self._run(), "timeline")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        moment_s = self.clock.monotonic_s() + delay_s
        heapq.heappush(self._calls, (moment_s, next(self._order), call))
        if self._calls[0][0] == moment_s:
            self._sooner.set()

    async def _run(self) -> None:
        while True:
            self._sooner.clear()
            while self._calls and self._calls[0][0] <= self.clock.monotonic_s():
                heapq.heappop(self._calls)[2]()
            await self._wait()

    async def _wait(self) -> None:
        sooner = asyncio.ensure_future(self._sooner.wait())
        waits: set[asyncio.Future[Any]] = {sooner}
        if self._calls:
            delay_s = self._calls[0][0] - self.clock.monotonic_s()
            waits.add(asyncio.ensure_future(self.clock.sleep(delay_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
