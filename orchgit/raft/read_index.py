"""Whether a leader still leads: for current reads, and for how long it may be trusted (Raft
dissertation, section 6.4)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from orchgit.raft.progress import ProgressTracker
from orchgit.raft.state import RaftState


@dataclass(slots=True)
class PendingRead:
    """Waits until a majority has answered in its round; then the state at `index` is current."""

    ticket: object
    round: int
    index: int


class ReadIndex:
    """The rounds of one leadership. All that is sent carries the number of the newest round,
    and so do the replies: a reply confirms the leadership as of the start of its round."""

    def __init__(self, state: RaftState, tracker: ProgressTracker) -> None:
        self._state = state
        self._tracker = tracker
        self._sent_round = state.round
        self._pending: list[PendingRead] = []
        self._heartbeats: deque[tuple[int, float]] = deque()
        """(round, start) of those that a majority has not answered yet."""
        self.confirmed_s = -math.inf
        """The start of the newest round that a majority has answered, however late the answers are
        read; inf for the only voter; -inf if another member may lead already."""

    # -- rounds ----------------------------------------------------------------------------------

    def next_round(self) -> int:
        self._state.round += 1
        return self._state.round

    def begin_heartbeat(self) -> None:
        self._heartbeats.append((self.next_round(), self._state.now_s))

    def awaits_confirmation(self, acked_round: int) -> bool:
        return bool(self._heartbeats) and acked_round >= self._heartbeats[0][0]

    def confirm(self) -> None:
        """See which rounds a majority has answered."""
        if self._state.log.configuration.voters == {self._state.name}:
            self.confirmed_s = math.inf
            self._heartbeats.clear()
            return
        confirmed = self._round_of_majority()
        if self.confirmed_s == math.inf:
            self.confirmed_s = -math.inf
        while self._heartbeats and self._heartbeats[0][0] <= confirmed:
            self.confirmed_s = self._heartbeats.popleft()[1]

    def _round_of_majority(self) -> int:
        return self._tracker.reached_by_majority(self._state.round, lambda peer: peer.acked_round)

    # -- reads -----------------------------------------------------------------------------------

    def add(self, ticket: object, index: int) -> None:
        self._pending.append(PendingRead(ticket, self.next_round(), index))

    @property
    def is_waited_for(self) -> bool:
        return bool(self._pending)

    @property
    def is_unsent(self) -> bool:
        """A read waits, and nothing was sent since that carries its round."""
        return any(read.round > self._sent_round for read in self._pending)

    def sent(self) -> None:
        self._sent_round = self._state.round

    def answer(self) -> None:
        """Answers the reads that a majority has confirmed."""
        if not self._pending:
            return
        confirmed = self._round_of_majority()
        self._state.reads.extend(
            (read.ticket, read.index) for read in self._pending if read.round <= confirmed
        )
        self._pending = [read for read in self._pending if read.round > confirmed]

    def refuse_all(self) -> None:
        """The leadership has ended."""
        self._state.reads.extend((read.ticket, None) for read in self._pending)
        self._pending.clear()
