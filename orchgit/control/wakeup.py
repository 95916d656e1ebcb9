"""How a leader's loop sleeps: until its next deadline, or until it is told that there is work."""

from __future__ import annotations

import asyncio

from orchgit.clock import SECOND_NS, Clock
from orchgit.wait_first import wait_first


class Wakeup:
    """A call of `set` between two waits is never lost; several become one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float | None) -> None:
        """Return when set, or after `timeout_s` (None: only when set)."""
        if timeout_s is None:
            await self._event.wait()
        elif not self._event.is_set():
            async with wait_first(self._event.wait(), self._clock.sleep(max(0.0, timeout_s))):
                pass
        self._event.clear()

    async def wait_until_ns(self, at_ns: int | None) -> None:
        """Return when set, or at `at_ns` (None: only when set)."""
        now_ns = self._clock.now_ns()
        await self.wait(None if at_ns is None else (at_ns - now_ns) / SECOND_NS)
