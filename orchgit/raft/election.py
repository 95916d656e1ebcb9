"""Terms and votes: who may lead, and that there is one at most in a term."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from orchgit.raft.configuration import Configuration, Placed
from orchgit.raft.membership import Belonging
from orchgit.raft.messages import (
    Message,
    PreVote,
    PreVoteReply,
    RequestVote,
    VoteReply,
)
from orchgit.raft.ports import NO_OP, Log, SnapshotRef, Snapshots, Vote

__all__ = ["NO_OP", "Electing", "Role", "Timing"]


class Role(enum.Enum):
    FOLLOWER = "follower"
    ASKING = "asking"
    """Whether it would be elected: no term has been changed yet."""
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Timing:
    """A follower stands for election after `election_s[0]` to `[1]` without hearing of a leader; a
    leader steps down when it has not heard of a majority for `election_s[1]`, and leaves the lead
    to one that can write when its own disk has been full for `without_room_s`."""

    heartbeat_s: float = 0.1
    election_s: tuple[float, float] = (0.5, 1.0)
    without_room_s: float = 3.0


class Electing(Belonging):
    """A member as a voter and a candidate. `first`: who the members are before the log says so."""

    def __init__(
        self,
        name: str,
        first: Placed,
        log: Log,
        snapshots: Snapshots,
        rng: random.Random,
        timing: Timing,
        applied_index: int,
        now_s: float,
    ) -> None:
        super().__init__(name, first, log, applied_index)
        self.snapshots = snapshots
        self._rng = rng
        self._timing = timing
        self.term = max(log.vote.term, log.term(log.last_index))
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        self.outbox: list[tuple[str, Message]] = []
        self.installed: SnapshotRef | None = None
        self._votes: set[str] = set()
        self._now_s = now_s
        self.heard_leader_s: float | None = None
        self.has_room = True
        """Told by the owner: a member whose disk is full votes, but could not lead."""
        self._wait_for_leader()
        self._forget_admission_if_forced()
        self._stand_at_once_if_alone()

    @property
    def _may_stand(self) -> bool:
        return self.has_room and super()._may_stand

    def bootstrap(self) -> bool:
        """Form a cluster of this member alone; False if it belongs to one."""
        if self.configuration.members or self.log.vote.from_index:
            return False
        self._is_deaf = False
        self._begin_with(Configuration.of([self.name]))
        self._stand_at_once_if_alone()
        return True

    def admit(self, term: int, index: int) -> None:
        """A leader of `term` has taken this server in by the entry `index`, and the member that it
        may have been is in the configuration no more. Leaders of earlier terms may not know that:
        they are not heard. On disk when this returns."""
        if not self._is_deaf:
            return
        term = max(term, self.term)
        self.log.store_vote(Vote(term, None, index))
        self.term = term
        self._is_deaf = False

    def _forget_admission_if_forced(self) -> None:
        """An operator who names the members takes what they have for all there is."""
        newest, vote = self._configurations.newest, self.log.vote
        if vote.from_index and newest.configuration.members and not newest.logged:
            self.log.store_vote(Vote(vote.term, vote.voted_for))

    def _stand_at_once_if_alone(self) -> None:
        if self.configuration.voters == {self.name}:
            self._election_s = self._now_s

    def _is_majority(self) -> bool:
        return self.configuration.is_majority(self._votes)

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
        self.log.store_vote(Vote(term, voted_for, self.log.vote.from_index))
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
        self.heard_leader_s = self._now_s
        self._wait_for_leader()

    # -- standing --------------------------------------------------------------------------------

    def _stand(self) -> None:
        """Ask first: who cannot win must not disturb the others with a new term."""
        self._wait_for_leader()
        self.role = Role.ASKING
        self.leader = None
        self._votes = {self.name}
        for other in self._other_voters:
            self._send(other, PreVote(self.term + 1, *self._last(), self.log_id))
        if self._is_majority():
            self._campaign()

    def _campaign(self, transfer: bool = False) -> None:
        self._wait_for_leader()
        self._enter_term(self.term + 1, self.name)
        self.role = Role.CANDIDATE
        self._votes = {self.name}
        for other in self._other_voters:
            self._send(other, RequestVote(self.term, *self._last(), transfer, self.log_id))
        if self._is_majority():
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
        if self.leader is None or self.heard_leader_s is None:
            return False
        return self._now_s - self.heard_leader_s < self._timing.election_s[0]

    def _on_pre_vote(self, sender: str, message: PreVote) -> None:
        granted = (
            message.term > self.term
            and self._may_vote
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
            if self._is_majority():
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
            and self._may_vote
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
            if self._is_majority():
                self._become_leader()
