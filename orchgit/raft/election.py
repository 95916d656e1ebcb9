"""Terms and votes: at most one leader in a term (Raft dissertation, sections 3.4 and 9.6)."""

from __future__ import annotations

from collections.abc import Callable

from orchgit.raft.membership import RaftMembership
from orchgit.raft.messages import (
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from orchgit.raft.ports import Vote
from orchgit.raft.state import RaftState, Role


class Election:
    """A member as a voter and a candidate. The only part that changes the term, the role and the
    known leader, and that stores votes.

    `on_elected` is called when this member has become the leader, `on_deposed` when it no longer
    is.
    """

    def __init__(
        self,
        state: RaftState,
        membership: RaftMembership,
        on_elected: Callable[[], None],
        on_deposed: Callable[[], None],
    ) -> None:
        self._state = state
        self._log = state.log
        self._membership = membership
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._votes: set[str] = set()
        self.heard_leader_s: float | None = None
        self.deadline_s = 0.0
        """When this member stands for election, unless it hears of a leader before."""
        self._restart_timeout()
        self.stand_at_once_if_alone()

    # -- time ------------------------------------------------------------------------------------

    def tick(self) -> None:
        if self._state.now_s >= self.deadline_s and self.may_stand:
            self._stand()

    def stood_still(self, length_s: float) -> None:
        """Leaves a standstill of this member out of its time-out. Whether it `has_leader` goes by
        real time: a leader's lease counts on nothing longer."""
        self.deadline_s += length_s

    def stand_at_once_if_alone(self) -> None:
        if self._log.configuration.voters == {self._state.name}:
            self.deadline_s = self._state.now_s

    @property
    def may_stand(self) -> bool:
        return self._state.has_room and self._membership.may_stand

    @property
    def has_leader(self) -> bool:
        """A leader was heard lately: then a candidate is not helped to overthrow it."""
        state = self._state
        if state.is_leader:
            return True
        if state.leader is None or self.heard_leader_s is None:
            return False
        return state.now_s - self.heard_leader_s < state.timing.election_s[0]

    def _restart_timeout(self) -> None:
        low, high = self._state.timing.election_s
        self.deadline_s = self._state.now_s + low + (high - low) * self._state.rng.random()

    # -- changes of role -------------------------------------------------------------------------

    def enter_term(self, term: int, voted_for: str | None = None) -> None:
        """The vote is on disk on return, so no message can tell of a vote that may be lost."""
        storage = self._log.storage
        storage.store_vote(Vote(term, voted_for, storage.vote.from_index))
        if term > self._state.term:
            self._state.term = term
            self.become_follower(None)

    def become_follower(self, leader: str | None) -> None:
        state = self._state
        was_leader = state.is_leader
        if was_leader:
            self._restart_timeout()
        state.role = Role.FOLLOWER
        state.leader = leader
        self._votes.clear()
        if was_leader:
            self._on_deposed()

    def follow(self, leader: str) -> None:
        """A message of the leader of this term came."""
        if self._state.role is not Role.FOLLOWER or self._state.leader != leader:
            self.become_follower(leader)
        self.heard_leader_s = self._state.now_s
        self._restart_timeout()

    # -- a candidate -----------------------------------------------------------------------------

    def _stand(self) -> None:
        """Asks first: a member that cannot win must not disturb the others with a new term."""
        state = self._state
        self._restart_timeout()
        state.role = Role.PRE_CANDIDATE
        state.leader = None
        self._votes = {state.name}
        for other in self._membership.other_voters:
            state.send(other, PreVote(state.term + 1, *self._log.last, state.log_id))
        if self._is_majority():
            self._campaign()

    def _campaign(self, transfer: bool = False) -> None:
        state = self._state
        self._restart_timeout()
        self.enter_term(state.term + 1, state.name)
        state.role = Role.CANDIDATE
        self._votes = {state.name}
        for other in self._membership.other_voters:
            state.send(other, RequestVote(state.term, *self._log.last, transfer, state.log_id))
        if self._is_majority():
            self._win()

    def _is_majority(self) -> bool:
        return self._log.configuration.is_majority(self._votes)

    def _win(self) -> None:
        self._state.role = Role.LEADER
        self._state.leader = self._state.name
        self._on_elected()

    def on_pre_vote_reply(self, sender: str, message: PreVoteReply) -> None:
        state = self._state
        if not message.granted:
            if message.term > state.term:
                self.enter_term(message.term)
        elif state.role is Role.PRE_CANDIDATE and message.term == state.term + 1:
            self._votes.add(sender)
            if self._is_majority():
                self._campaign()

    def on_vote_reply(self, sender: str, message: VoteReply) -> None:
        if self._state.role is Role.CANDIDATE and message.granted:
            self._votes.add(sender)
            if self._is_majority():
                self._win()

    def on_timeout_now(self, sender: str, message: TimeoutNow) -> None:
        """The leader transfers its leadership to this member."""
        state = self._state
        if message.term == state.term and sender == state.leader and self.may_stand:
            self._campaign(transfer=True)

    # -- a voter ---------------------------------------------------------------------------------

    def on_pre_vote(self, sender: str, message: PreVote) -> None:
        state = self._state
        granted = (
            message.term > state.term
            and self._membership.may_vote
            and not self.has_leader
            and self._is_up_to_date(message)
        )
        state.send(sender, PreVoteReply(message.term if granted else state.term, granted))

    def on_request_vote(self, sender: str, message: RequestVote) -> None:
        state = self._state
        if self.has_leader and not message.transfer and sender != state.leader:
            return
        if message.term > state.term:
            self.enter_term(message.term)
        vote = self._log.storage.vote
        voted_for = vote.voted_for if vote.term == state.term else None
        granted = (
            message.term == state.term
            and self._membership.may_vote
            and voted_for in (None, sender)
            and self._is_up_to_date(message)
        )
        if granted:
            self.enter_term(state.term, sender)
            self._restart_timeout()
        state.send(sender, VoteReply(state.term, granted))

    def _is_up_to_date(self, message: PreVote | RequestVote) -> bool:
        """The candidate's log has all that this one may have helped to commit (section 3.6.1)."""
        last_index, last_term = self._log.last
        return (message.last_term, message.last_index) >= (last_term, last_index)
