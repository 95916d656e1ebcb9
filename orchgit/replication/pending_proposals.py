"""Proposals on their way, and the end of waiting for those that nothing comes back of."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

from orchgit.raft_node.proposal import Proposal


class Waiting:
    """Belongs to the event loop's thread. One timer for all of them: setting and taking back one
    for each costs more than all else about waiting, and nearly none of them ever goes off."""

    def __init__(self) -> None:
        self._deadlines_s: dict[Proposal, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = math.inf

    def __iter__(self) -> Iterator[Proposal]:
        return iter(tuple(self._deadlines_s))

    def add(self, proposal: Proposal, timeout_s: float) -> None:
        """Unless it is answered or discarded by then, it ends with a TimeoutError."""
        deadline_s = proposal.loop.time() + timeout_s
        self._deadlines_s[proposal] = deadline_s
        if deadline_s < self._looks_at_s:
            self._look_at(deadline_s, proposal.loop)

    def discard(self, proposal: Proposal) -> None:
        self._deadlines_s.pop(proposal, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_at(self, deadline_s: float, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._looks_at_s = deadline_s
        self._timer = loop.call_at(deadline_s, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop wakes up to its clock's resolution early: what is due at the timer's time is due.
        now_s = max(loop.time(), self._looks_at_s)
        for proposal, deadline_s in tuple(self._deadlines_s.items()):
            if deadline_s <= now_s:
                self.discard(proposal)
                proposal.expire()
        self._looks_at_s = math.inf
        if self._deadlines_s:
            self._look_at(min(self._deadlines_s.values()), loop)
