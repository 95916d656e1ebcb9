"""Wake-ups that cannot get lost: those that come during the work cause one more round of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from orchgit.clock import Clock
from orchgit.wait_first import wait_first


@dataclass(frozen=True, slots=True)
class Wake:
    """Why the loop runs now. `force`: also what was refused before is tried again."""

    trigger: str
    force: bool = False


class Wakeups:
    """Requests are numbered; a round handles all that were made before it *started*: `requested`
    is the number of the newest, `handled` that of the newest whose round has been started."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.requested = 0
        self.handled = 0
        self._reasons: list[Wake] = []
        self._event = asyncio.Event()

    def request(self, wake: Wake) -> None:
        """May be called at any time from the loop's thread; many before a round are one round."""
        self.requested += 1
        if wake not in self._reasons:
            self._reasons.append(wake)
        self._event.set()

    async def next(self, timeout_s: float) -> Wake:
        """Wait for a request, or for `timeout_s` to pass (a poll); call before each round."""
        if self.requested == self.handled:
            await self._wait(timeout_s)
        self._event.clear()
        self.handled = self.requested
        reasons, self._reasons = self._reasons, []
        if not reasons:
            return Wake("poll")
        return Wake(reasons[0].trigger, any(wake.force for wake in reasons))

    async def _wait(self, timeout_s: float) -> None:
        async with wait_first(self._event.wait(), self._clock.sleep(timeout_s)):
            pass
