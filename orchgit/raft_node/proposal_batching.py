"""Proposals on their way to the raft thread, and when it takes them.

A round (append, sync, send, be answered) costs about the same for one entry as for many. So while a
round is under way, proposals wait for its end and make up the next one together. A client that
writes alone never waits for that: no round is under way then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from orchgit.raft_node.proposal import Proposal

_QUEUE = 65536
_MAX_WAIT_S = 0.01
_ENOUGH = 256
"""Proposals wait for at most so long after a round began, and at most so many: on slow links and
slow disks too, rounds follow each other without waiting for replies."""


@dataclass(slots=True)
class QueuedProposal:
    command: bytes
    proposal: Proposal
    forward: bool
    """A follower sends it to the leader."""


class ProposalQueue:
    """`put` is for any thread, the rest for the raft thread."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedProposal] = deque()
        self._batching = False
        """The raft thread need not be woken: it looks again by itself, at `_until_s` at the
        latest."""
        self._until_s = 0.0

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= _QUEUE

    def put(self, queued: QueuedProposal) -> bool:
        """Returns whether the raft thread has to be woken for it."""
        self._waiting.append(queued)
        return not self._batching or len(self._waiting) >= _ENOUGH

    def take(self, round_is_under_way: bool, now_s: float) -> list[QueuedProposal]:
        """Returns what is to be appended now."""
        if not self._waiting or self._may_wait(round_is_under_way, now_s):
            return []
        self._until_s = now_s + _MAX_WAIT_S
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def has_work(self, round_is_under_way: bool, now_s: float) -> bool:
        """Returns whether there is something to take now. If not, `put` tells from here on, or the
        time does."""
        # In this order: a `put` after the look at the queue finds what was decided before it.
        self._batching = self._may_wait(round_is_under_way, now_s)
        return bool(self._waiting) and not self._batching

    def limited(self, timeout_s: float, now_s: float) -> float:
        """Returns how long the raft thread may sleep: `timeout_s`, or less."""
        return min(timeout_s, max(0.0, self._until_s - now_s)) if self._batching else timeout_s

    def _may_wait(self, round_is_under_way: bool, now_s: float) -> bool:
        return round_is_under_way and now_s < self._until_s and len(self._waiting) < _ENOUGH
