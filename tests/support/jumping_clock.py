"""The real clock, which a test may move forward: sleepers whose time has come then wake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from orchgit.clock import SECOND_NS


class JumpingClock:
    def __init__(self, now_ns: int) -> None:
        self._offset_ns = now_ns - time.time_ns()
        self._jumped_s = 0.0
        self._jump = asyncio.Event()

    def now_ns(self) -> int:
        return time.time_ns() + self._offset_ns + round(self._jumped_s * SECOND_NS)

    def monotonic_s(self) -> float:
        return time.monotonic() + self._jumped_s

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """The time begins with the call, so that a jump before the first await counts."""
        return self._sleep_until(self.monotonic_s() + seconds)

    async def _sleep_until(self, end_s: float) -> None:
        while (left_s := end_s - self.monotonic_s()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._jump.wait()
            except TimeoutError:
                return

    def jump(self, seconds: float) -> None:
        """Moves time forward by so much at once."""
        self._jumped_s += seconds
        jump, self._jump = self._jump, asyncio.Event()
        jump.set()
