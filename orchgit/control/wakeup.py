"""How a loop sleeps: until its next moment, or until somebody says that there is work."""

from __future__ import annotations

import asyncio

from orchgit.clock import Clock
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
            await self._either(timeout_s)
        self._event.clear()

    async def _either(self, timeout_s: float) -> None:
        async with wait_first(self._event.wait(), self._clock.sleep(max(0.0, timeout_s))):
            pass
