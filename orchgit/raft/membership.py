"""Which cluster a member belongs to, and what it may do as a member."""

from __future__ import annotations

from orchgit.raft.configuration import Configuration
from orchgit.raft.messages import NotMember, OtherLog, RulingMessage
from orchgit.raft.ports import Vote
from orchgit.raft.state import RaftState


class RaftMembership:
    """Holds what the configurations in the log do not say: the removal that a leader told of, the
    admission that is waited for, and the foreign peers that were met.

    A server that lost its disk may have been a member: what it acknowledged and whom it voted for
    is forgotten. With `waits_for_admission` it handles no message until a leader has removed the
    member that it was, and has added it as a new one (`admit`).
    """

    def __init__(self, state: RaftState, waits_for_admission: bool) -> None:
        self._state = state
        self._log = state.log
        self._removed_index = 0
        self._others: tuple[Configuration | None, tuple[str, ...]] = None, ()
        self.foreign_peers: dict[str, str] = {}
        """Servers of other clusters that sent something from an address of this cluster: address
        -> the id of their log."""
        known = self._log.configuration.members or self._log.storage.vote.from_index
        self.waits_for_admission = waits_for_admission and not known
        newest, vote = self._log.configurations.newest, self._log.storage.vote
        if vote.from_index and newest.configuration.members and not newest.logged:
            # The operator forced the members: what they have is all there is.
            self._log.storage.store_vote(Vote(vote.term, vote.voted_for))

    # -- the other members -----------------------------------------------------------------------

    @property
    def others(self) -> tuple[str, ...]:
        """The other members; the same tuple as long as the same configuration is in force."""
        configuration = self._log.configuration
        if self._others[0] is not configuration:
            found = (one.address for one in configuration.members)
            self._others = configuration, tuple(one for one in found if one != self._state.name)
        return self._others[1]

    @property
    def other_voters(self) -> tuple[str, ...]:
        voters = self._log.configuration.voters
        return tuple(name for name in self.others if name in voters)

    # -- this member -----------------------------------------------------------------------------

    @property
    def is_removed(self) -> bool:
        """A committed configuration, known here or to a leader, is without this member."""
        if self._was_told_of_removal:
            return True
        newest = self._log.configurations.newest
        known = newest.logged and self._log.is_configuration_committed
        return known and self._state.name not in newest.configuration.addresses

    @property
    def _was_told_of_removal(self) -> bool:
        """The removal is later than any configuration in the own log."""
        return self._removed_index > self._log.configurations.newest.index

    @property
    def is_catching_up(self) -> bool:
        """It was admitted, and its log lacks the entry by which that was done."""
        return self._log.last_index < self._log.storage.vote.from_index

    @property
    def may_vote(self) -> bool:
        """A member votes for any candidate, known or not. But not before it has a part of the
        cluster's log, nor while it is catching up: its log may lack what it acknowledged before it
        lost its disk, so a candidate without those entries could win."""
        return bool(self._log.configuration.members) and not self.is_catching_up

    @property
    def may_stand(self) -> bool:
        """Also while its own removal is not committed: no other member may have that entry."""
        if self._was_told_of_removal or self.is_catching_up:
            return False
        configurations = self._log.configurations
        return any(
            self._state.name in one.configuration.voters
            for one in (configurations.newest, configurations.previous)
        )

    def bootstrap(self) -> bool:
        """Makes this server the only member of a new cluster; returns False if it belongs to one
        already."""
        if self._log.configuration.members or self._log.storage.vote.from_index:
            return False
        self.waits_for_admission = False
        self._log.begin_with(Configuration.of([self._state.name]))
        return True

    def admit(self, term: int, index: int) -> None:
        """A leader of `term` added this server by the entry `index`, and the member that it was is
        in no configuration any more. Leaders of earlier terms may not know that, so they are not
        followed. Durable on return."""
        if not self.waits_for_admission:
            return
        term = max(term, self._state.term)
        self._log.storage.store_vote(Vote(term, None, index))
        self._state.term = term
        self.waits_for_admission = False

    # -- messages --------------------------------------------------------------------------------

    def on_not_member(self, sender: str, message: NotMember) -> None:
        """The log may lack the entry of the removal: nobody sends it to a removed member."""
        self._removed_index = max(self._removed_index, message.index)

    def on_other_log(self, sender: str, message: OtherLog) -> None:
        self._met(sender, message.log_id)

    def refuses_removed(self, sender: str) -> bool:
        """Tells a candidate that was removed, as the leader knows for certain; returns whether it
        was removed."""
        is_member = sender in self._log.configuration.addresses
        if is_member or not self._state.is_leader or not self._log.is_configuration_committed:
            return False
        index = self._log.configurations.newest.index
        self._state.send(sender, NotMember(self._state.term, index))
        return True

    def refuses_foreign(self, sender: str, message: RulingMessage) -> bool:
        """Tells a leader or a candidate of another cluster's log that it is one; returns whether it
        is.

        A server that has just formed a cluster of its own follows nobody before its log has an id:
        it may have been a member of another cluster, whose leader still counts on what it
        acknowledged before it lost its disk."""
        state, configuration = self._state, self._log.configuration
        if not state.log_id:
            return configuration.voters == configuration.addresses == {state.name}
        if message.log_id in ("", state.log_id):
            return False
        self._met(sender, message.log_id)
        state.send(sender, OtherLog(state.term, state.log_id))
        return True

    def _met(self, sender: str, log_id: str) -> None:
        if log_id not in ("", self._state.log_id):
            self.foreign_peers[sender] = log_id
