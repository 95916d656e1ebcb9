"""What a leader knows of one follower."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from orchgit.raft.ports import SnapshotRef

MAX_IN_FLIGHT_BYTES = 4 << 20
MAX_IN_FLIGHT = 128


@dataclass(slots=True)
class Streaming:
    """A snapshot on its way: one chunk at a time."""

    ref: SnapshotRef
    offset: int = 0
    sent_s: float | None = None


@dataclass(slots=True)
class Progress:
    """`match` only grows, and `next` never falls below it: success moves both forward, whatever
    was sent meanwhile, and only a refusal that is not old moves `next` back."""

    next: int
    heard_s: float
    since_round: int = 0
    """Answers to earlier ones are of a member of that name that was taken out meanwhile."""
    match: int = 0
    could_write: bool = True
    """Its disk is not full, as it says itself."""
    probing: bool = True
    """Where the logs agree is not known yet: one message at a time."""
    waiting: bool = False
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(last index, bytes) of what was sent and not answered."""
    in_flight_bytes: int = 0
    acked_round: int = 0
    sent_commit: int = 0
    sent_s: float = -math.inf
    streaming: Streaming | None = None
    large_until_s: float = 0.0
    """Until then a large entry is on its way: nothing that would be refused without it is sent."""
    lap_end: int = 0
    lap_began_s: float = 0.0
    lap_s: float | None = None
    """A lap is the time to get all that the leader had at its beginning; this, the last one's."""

    def ran(self, last_index: int, now_s: float) -> None:
        """It answered: does a lap end here?"""
        if self.lap_began_s and self.match >= self.lap_end:
            self.lap_s = now_s - self.lap_began_s
        if not self.lap_began_s or self.match >= self.lap_end:
            self.lap_end, self.lap_began_s = last_index, now_s

    def keeps_up(self, within_s: float, now_s: float) -> bool:
        """It would not hold up commits: the last lap was short, and this one is not yet long."""
        last = self.lap_s is not None and self.lap_s <= within_s
        return last and now_s - self.lap_began_s <= within_s

    def is_to_be_told(self, commit_index: int, now_s: float) -> bool:
        """Whether it gets entries as they come, and was not told yet that so many are committed."""
        if self.sent_commit >= commit_index or self.probing or self.streaming is not None:
            return False
        return now_s >= self.large_until_s

    def was_sent(self, index: int) -> bool:
        return self.next > index and not self.probing and self.streaming is None

    @property
    def has_room(self) -> bool:
        return self.in_flight_bytes < MAX_IN_FLIGHT_BYTES and len(self.in_flight) < MAX_IN_FLIGHT

    def sent(self, last_index: int, size: int) -> None:
        if self.probing:
            self.waiting = True
            return
        self.next = last_index + 1
        self.in_flight.append((last_index, size))
        self.in_flight_bytes += size

    def accepted(self, index: int) -> None:
        self.match = max(self.match, index)
        self.next = max(self.next, self.match + 1)
        self.probing = self.waiting = False
        while self.in_flight and self.in_flight[0][0] <= self.match:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        if self.match + 1 >= self.next:
            self.large_until_s = 0.0

    def refused(self, at_index: int, agree_index: int) -> bool:
        """Go back to where the logs may agree; False if the refusal is an old one."""
        if at_index <= self.match or at_index >= self.next:
            return False
        if self.probing and at_index != self.next - 1:
            return False
        self.next = max(self.match, min(agree_index, at_index - 1)) + 1
        self.probe()
        return True

    def probe(self) -> None:
        self.probing, self.waiting = True, False
        self.in_flight.clear()
        self.in_flight_bytes = 0
