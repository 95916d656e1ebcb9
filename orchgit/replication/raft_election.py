"""Terms and votes: who may lead, and that there is one at most in a term."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.replication.raft_messages import (
    Message,
    PreVote,
    PreVoteReply,
    RequestVote,
    VoteReply,
)
from orchgit.replication.raft_progress import SnapshotRef
from orchgit.replication.segment import Record
from orchgit.replication.vote import Vote

NO_OP = b"\x01"
"""The first byte of an entry says what it is; this one does nothing."""


class Role(enum.Enum):
    FOLLOWER = "follower"
    ASKING = "asking"
    """Whether it would be elected: no term has been changed yet."""
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Timing:
    """A follower stands for election after `election_s[0]` to `[1]` without hearing of a leader; a
    leader steps down when it has not heard of a majority for `election_s[1]`."""

    heartbeat_s: float = 0.1
    election_s: tuple[float, float] = (0.5, 1.0)


class Log(Protocol):
    """The journal, as far as Raft needs it."""

    synced_index: int

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    @property
    def vote(self) -> Vote: ...
    def store_vote(self, vote: Vote) -> None: ...
    def term(self, index: int) -> int: ...
    def record(self, index: int) -> Record: ...
    def append(self, term: int, payload: bytes) -> int: ...
    def cut_after(self, last_index: int) -> None: ...
    def reset(self, next_index: int) -> None: ...
    def sync(self) -> None: ...


class Snapshots(Protocol):
    """Where snapshots come from and go to."""

    def latest(self) -> SnapshotRef | None:
        """The newest on disk; the log still has the entry of its index."""

    def read(self, ref: SnapshotRef, offset: int) -> bytes | None:
        """The next bytes; None if that snapshot is gone."""

    def receive(self, ref: SnapshotRef, offset: int, data: bytes) -> int:
        """Keep a chunk, if it is the wanted one; the offset that is wanted next."""

    def install(self, ref: SnapshotRef) -> None:
        """All of it was received: durable on return, and found at the next start."""


class Electing:
    """A member as a voter and a candidate."""

    def __init__(
        self,
        name: str,
        members: Sequence[str],
        log: Log,
        snapshots: Snapshots,
        rng: random.Random,
        timing: Timing,
        applied_index: int,
        now_s: float,
    ) -> None:
        self.name = name
        self.members = frozenset(members)
        self.others = tuple(sorted(self.members - {name}))
        self.log = log
        self.snapshots = snapshots
        self._rng = rng
        self._timing = timing
        if log.last_index == 0:
            log.append(0, NO_OP)
            log.sync()
        self.term = max(log.vote.term, log.term(log.last_index))
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        # What this member applied was committed; a rebuilt state begins again before it.
        self.commit_index = max(applied_index, 1)
        self.outbox: list[tuple[str, Message]] = []
        self.installed: SnapshotRef | None = None
        self._votes: set[str] = set()
        self._now_s = now_s
        self._heard_leader_s: float | None = None
        self._wait_for_leader()
        if self.members == {name}:
            self._election_s = now_s

    def _is_majority(self, count: int) -> bool:
        return count * 2 > len(self.members)

    def _send(self, receiver: str, message: Message) -> None:
        self.outbox.append((receiver, message))

    def _term_at(self, index: int) -> int:
        return self.log.term(index) if index >= self.log.first_index else 0

    def _last(self) -> tuple[int, int]:
        return self.log.last_index, self.log.term(self.log.last_index)

    def _wait_for_leader(self) -> None:
        low, high = self._timing.election_s
        self._election_s = self._now_s + low + (high - low) * self._rng.random()

    def _enter_term(self, term: int, voted_for: str | None = None) -> None:
        """On disk when this returns, so no message can speak of a vote that may be forgotten."""
        self.log.store_vote(Vote(term, voted_for))
        if term > self.term:
            self.term = term
            self._become_follower(None)

    def _become_follower(self, leader: str | None) -> None:
        if self.role is Role.LEADER:
            self._wait_for_leader()
        self.role = Role.FOLLOWER
        self.leader = leader
        self._votes.clear()

    def _follow(self, leader: str) -> None:
        if self.role is not Role.FOLLOWER or self.leader != leader:
            self._become_follower(leader)
        self._heard_leader_s = self._now_s
        self._wait_for_leader()

    # -- standing --------------------------------------------------------------------------------

    def _stand(self) -> None:
        """Ask first: who cannot win must not disturb the others with a new term."""
        self._wait_for_leader()
        self.role = Role.ASKING
        self.leader = None
        self._votes = {self.name}
        for other in self.others:
            self._send(other, PreVote(self.term + 1, *self._last()))
        if self._is_majority(1):
            self._campaign()

    def _campaign(self, transfer: bool = False) -> None:
        self._wait_for_leader()
        self._enter_term(self.term + 1, self.name)
        self.role = Role.CANDIDATE
        self._votes = {self.name}
        for other in self.others:
            self._send(other, RequestVote(self.term, *self._last(), transfer))
        if self._is_majority(1):
            self._become_leader()

    def _become_leader(self) -> None:
        raise NotImplementedError

    # -- voting ----------------------------------------------------------------------------------

    def _is_up_to_date(self, last_index: int, last_term: int) -> bool:
        mine_index, mine_term = self._last()
        return (last_term, last_index) >= (mine_term, mine_index)

    def _has_leader(self) -> bool:
        """Heard of lately: then a member that lost touch is not helped to overthrow it."""
        if self.role is Role.LEADER:
            return True
        if self.leader is None or self._heard_leader_s is None:
            return False
        return self._now_s - self._heard_leader_s < self._timing.election_s[0]

    def _on_pre_vote(self, sender: str, message: PreVote) -> None:
        granted = (
            message.term > self.term
            and not self._has_leader()
            and self._is_up_to_date(message.last_index, message.last_term)
        )
        self._send(sender, PreVoteReply(message.term if granted else self.term, granted))

    def _on_pre_vote_reply(self, sender: str, message: PreVoteReply) -> None:
        if not message.granted:
            if message.term > self.term:
                self._enter_term(message.term)
            return
        if self.role is Role.ASKING and message.term == self.term + 1:
            self._votes.add(sender)
            if self._is_majority(len(self._votes)):
                self._campaign()

    def _on_request_vote(self, sender: str, message: RequestVote) -> None:
        if self._has_leader() and not message.transfer and sender != self.leader:
            return
        if message.term > self.term:
            self._enter_term(message.term)
        vote = self.log.vote
        voted_for = vote.voted_for if vote.term == self.term else None
        granted = (
            message.term == self.term
            and voted_for in (None, sender)
            and self._is_up_to_date(message.last_index, message.last_term)
        )
        if granted:
            self._enter_term(self.term, sender)
            self._wait_for_leader()
        self._send(sender, VoteReply(self.term, granted))

    def _on_vote_reply(self, sender: str, message: VoteReply) -> None:
        if self.role is Role.CANDIDATE and message.granted:
            self._votes.add(sender)
            if self._is_majority(len(self._votes)):
                self._become_leader()
