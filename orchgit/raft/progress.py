"""What a leader knows of the other members: how far their logs are, and what is on its way."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from orchgit.raft.configuration import PeerProgress
from orchgit.raft.ports import SnapshotRef
from orchgit.raft.state import RaftState

MAX_IN_FLIGHT_BYTES = 4 << 20
MAX_IN_FLIGHT = 128


@dataclass(slots=True)
class SnapshotStream:
    """A snapshot that is being sent, one chunk at a time. `offset` is the wanted one."""

    ref: SnapshotRef
    offset: int = 0
    sent_s: float | None = None


@dataclass(slots=True)
class Progress:
    """One member. `match` only grows, and `next` never falls below it: a success moves both
    forward, whatever was sent meanwhile, and only a refusal that is not old moves `next` back."""

    next: int
    heard_s: float
    since_round: int = 0
    """Replies to earlier rounds are from a member of that name that was removed meanwhile."""
    match: int = 0
    could_write: bool = True
    """As the member's last reply says: its disk is not full."""
    probing: bool = True
    """Where the logs agree is not known yet: one message at a time."""
    waiting: bool = False
    """While probing: a message is not answered yet."""
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(last index, bytes) of each message that was sent and not answered."""
    in_flight_bytes: int = 0
    acked_round: int = 0
    sent_commit: int = 0
    sent_s: float = -math.inf
    stream: SnapshotStream | None = None
    large_until_s: float = 0.0
    """Until then a large entry is on its way: nothing is sent that would be refused without it."""
    lap_end: int = 0
    lap_began_s: float = 0.0
    lap_s: float | None = None
    """A lap is the time to receive all that the leader had when the lap began (the dissertation's
    rounds, section 4.2.1); this is the duration of the last one."""

    def measure_lap(self, last_index: int, now_s: float) -> None:
        """The member answered: ends the lap if it has all of it, and begins the next."""
        if self.lap_began_s and self.match >= self.lap_end:
            self.lap_s = now_s - self.lap_began_s
        if not self.lap_began_s or self.match >= self.lap_end:
            self.lap_end, self.lap_began_s = last_index, now_s

    def keeps_up(self, within_s: float, now_s: float) -> bool:
        """With a vote the member would not hold up commits: the last lap was short, and the
        current one is not long yet."""
        last = self.lap_s is not None and self.lap_s <= within_s
        return last and now_s - self.lap_began_s <= within_s

    def lacks_commit(self, commit_index: int, now_s: float) -> bool:
        """The member gets entries as they come, and was not told that so many are committed."""
        if self.sent_commit >= commit_index or self.probing or self.stream is not None:
            return False
        return now_s >= self.large_until_s

    def was_sent(self, index: int) -> bool:
        return self.next > index and not self.probing and self.stream is None

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
        """Goes back to where the logs may agree; returns False if the refusal is an old one."""
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


class ProgressTracker:
    """The progress of all other members during one leadership."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.peers: dict[str, Progress] = {}
        self._first_rounds: dict[str, int] = {}
        """Of members that were removed: the first round whose replies would count again."""

    def update(self, others: tuple[str, ...], next_round: Callable[[], int]) -> list[str]:
        """Another configuration is in force; returns who was removed.

        A member that is added again may have lost its disk: what it answered before is void, so
        its removal begins a round."""
        removed = sorted(set(self.peers) - set(others))
        for name in removed:
            self._first_rounds[name] = next_round()
        state = self._state
        start = state.log.last_index + 1
        self.peers = {
            name: self.peers.get(name)
            or Progress(start, state.now_s, self._first_rounds.get(name, 0))
            for name in others
        }
        return removed

    def reached_by_majority(self, own: int, of: Callable[[Progress], int]) -> int:
        """Returns the most that a majority of the voters has reached."""
        reached = sorted(
            own if name == self._state.name else of(self.peers[name])
            for name in self._state.log.configuration.voters
        )
        return reached[(len(reached) - 1) // 2]

    def heard_since(self, since_s: float) -> list[str]:
        """Returns who answered after `since_s`."""
        return [name for name, peer in self.peers.items() if peer.heard_s > since_s]

    def report(self) -> tuple[PeerProgress, ...]:
        """Safe to call from any thread."""
        voters, now_s = self._state.log.configuration.voters, self._state.now_s
        return tuple(
            PeerProgress(name, name in voters, peer.match, max(0.0, now_s - peer.heard_s))
            for name, peer in list(self.peers.items())
        )
