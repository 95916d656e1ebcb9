"""Wake-ups of a loop that cannot get lost: those during a round cause one more round."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from orchgit.clock import Clock
from orchgit.model.author import Author
from orchgit.model.gates import WindowOverride
from orchgit.wait_first import wait_first

POLL = "poll"


@dataclass(frozen=True, slots=True)
class Asker:
    """A person who asks for a round: the name, a claim unless the request bore `author`'s token."""

    name: str = ""
    author: Author | None = None


NOBODY = Asker()


@dataclass(frozen=True, slots=True)
class Wake:
    """Why a round runs. With `force` it tries a refused commit again; with `override` it applies a
    commit outside its windows. `asker` is recorded with the rollout that comes of it."""

    trigger: str
    force: bool = False
    override: WindowOverride | None = None
    asker: Asker = NOBODY


class Wakeups:
    """Numbers the requests for rounds. A round handles all requests made before it *started*.

    `requested` is the number of the newest request, `handled` that of the newest request whose
    round has started.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.requested = 0
        self.handled = 0
        self._reasons: list[Wake] = []
        self._event = asyncio.Event()

    def request(self, wake: Wake) -> None:
        """Requests a round; many requests before a round cause one. Call it in the loop's
        thread."""
        self.requested += 1
        if wake not in self._reasons:
            self._reasons.append(wake)
        self._event.set()

    async def next(self, timeout_s: float) -> Wake:
        """Waits for a request, or for `timeout_s` to pass, which is a poll. Returns why the next
        round runs."""
        if self.requested == self.handled:
            async with wait_first(self._event.wait(), self._clock.sleep(timeout_s)):
                pass
        self._event.clear()
        self.handled = self.requested
        reasons, self._reasons = self._reasons, []
        if not reasons:
            return Wake("poll")
        # A poll may take what was listed before it; any other reason asks for what is there now.
        asked = [wake for wake in reasons if wake.trigger != POLL] or reasons
        # Who asked is recorded: a request that names nobody, made beside it, does not hide it.
        told = next((wake for wake in asked if wake.asker != NOBODY), asked[0])
        overrides = [wake.override for wake in reasons if wake.override is not None]
        return Wake(
            told.trigger,
            any(wake.force for wake in reasons),
            overrides[-1] if overrides else None,
            told.asker,
        )
