"""Commands on their way to the raft thread, and when it takes them.

A round (append, sync, send, be answered) costs about the same for one entry as for many. So while
one is under way, what is proposed waits for its end and makes up the next one together. Nobody who
writes alone waits for that: there is no round then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from orchgit.raft_node.proposal import Proposal

_QUEUE = 65536
_GATHER_S = 0.01
_ENOUGH = 256
"""For so long after a round began, and so many, at the most: rounds follow each other on slow links
and slow disks too, without waiting for answers."""


@dataclass(slots=True)
class Submission:
    command: bytes
    proposal: Proposal
    forward: bool


class Submissions:
    """`put` is for any thread, the rest for the raft thread."""

    def __init__(self) -> None:
        self._waiting: deque[Submission] = deque()
        self._gathers = False
        """The raft thread need not be woken: it looks again by itself, at `_until_s` at the
        latest."""
        self._until_s = 0.0

    @property
    def are_too_many(self) -> bool:
        return len(self._waiting) >= _QUEUE

    def put(self, submission: Submission) -> bool:
        """Whether the raft thread has to be woken for it."""
        self._waiting.append(submission)
        return not self._gathers or len(self._waiting) >= _ENOUGH

    def take(self, round_is_under_way: bool, now_s: float) -> list[Submission]:
        """What is to be appended now."""
        if not self._waiting or self._may_gather(round_is_under_way, now_s):
            return []
        self._until_s = now_s + _GATHER_S
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def ask_for_turn(self, round_is_under_way: bool, now_s: float) -> bool:
        """Whether there is something to be taken. False: `put` tells from here on, or the time."""
        # In this order: whoever puts something after the look finds what was decided before it.
        self._gathers = self._may_gather(round_is_under_way, now_s)
        return bool(self._waiting) and not self._gathers

    def within(self, timeout_s: float, now_s: float) -> float:
        """So long, or shorter, may the raft thread sleep."""
        return min(timeout_s, max(0.0, self._until_s - now_s)) if self._gathers else timeout_s

    def _may_gather(self, round_is_under_way: bool, now_s: float) -> bool:
        return round_is_under_way and now_s < self._until_s and len(self._waiting) < _ENOUGH
