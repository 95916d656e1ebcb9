"""Proposals that wait for their answers, and their time-outs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

from orchgit.raft_node.proposal import Proposal


class PendingProposals:
    """On the event loop's thread. One timer serves all proposals: to set and cancel one for each
    would cost more than all else about waiting, and hardly any ever fires."""

    def __init__(self) -> None:
        self._deadlines_s: dict[Proposal, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = math.inf

    def __iter__(self) -> Iterator[Proposal]:
        return iter(tuple(self._deadlines_s))

    def add(self, proposal: Proposal, timeout_s: float) -> None:
        """Ends the proposal with a TimeoutError unless it is answered or discarded by then."""
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
