"""Which cluster a member belongs to, as its log says."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.raft.configuration import (
    CONFIGURATION,
    Configuration,
    Configurations,
    Placed,
    decode_configuration,
)
from orchgit.raft.messages import NotMember
from orchgit.raft.ports import NO_OP, Log


class Belonging:
    """`first`: who the members are as long as no later entry of the log says otherwise."""

    def __init__(self, name: str, first: Placed, log: Log, applied_index: int) -> None:
        self.name = name
        self.log = log
        if log.last_index == 0:
            log.append(0, NO_OP)
            log.sync()
        # What this member applied was committed; a rebuilt state begins again before it.
        self.commit_index = max(applied_index, 1)
        self._configurations = Configurations(first, self._logged_configurations())
        self._configurations.settle(self.commit_index)
        self._others: tuple[Configuration | None, tuple[str, ...]] = None, ()
        self._removed_index = 0
        self._is_deaf = False
        self.log_id = ""
        """Told by the owner: which cluster's log this is; empty until the log has said so."""
        self.strangers: dict[str, str] = {}
        """Servers of other clusters that were met at an address of this one: address -> log id."""

    def _logged_configurations(self) -> Iterable[Placed]:
        for index in self.log.of_kind(CONFIGURATION):
            yield Placed(index, decode_configuration(self.log.record(index).payload))

    @property
    def configuration(self) -> Configuration:
        """The newest in the log, committed or not."""
        return self._configurations.newest.configuration

    @property
    def _is_settled(self) -> bool:
        """The newest configuration is committed."""
        return self._configurations.newest.index <= self.commit_index

    @property
    def others(self) -> tuple[str, ...]:
        """The same tuple as long as the same configuration is in force."""
        configuration = self.configuration
        if self._others[0] is not configuration:
            found = (one.address for one in configuration.members if one.address != self.name)
            self._others = configuration, tuple(found)
        return self._others[1]

    @property
    def _other_voters(self) -> tuple[str, ...]:
        members = self.configuration.members
        return tuple(one.address for one in members if one.voter and one.address != self.name)

    @property
    def is_left_out(self) -> bool:
        """By a committed configuration."""
        newest = self._configurations.newest
        if self._is_told_removed:
            return True
        known = newest.logged and self._is_settled
        return known and self.name not in newest.configuration.addresses

    @property
    def _is_told_removed(self) -> bool:
        """Later than anything that the own log has about members."""
        return self._removed_index > self._configurations.newest.index

    def wait_for_admission(self) -> None:
        """Of a server that has nothing: it may have been a member, and what it acknowledged and
        whom it voted for is forgotten. So it hears nothing until a leader has put the member that
        it was out of the configuration, and has taken it in as a new one (`admit`)."""
        self._is_deaf = not self.configuration.members and not self.log.vote.from_index

    @property
    def is_deaf(self) -> bool:
        """It waits to be admitted."""
        return self._is_deaf

    def _is_foreign(self, log_id: str) -> bool:
        """Whether who speaks of that log is not to be heard. A server that has just formed a
        cluster of its own hears nobody until that has its id: it may have been a member of another,
        whose leader still counts on what it acknowledged before it lost its disk."""
        if self.log_id:
            return log_id not in ("", self.log_id)
        return self.configuration.voters == self.configuration.addresses == {self.name}

    @property
    def is_catching_up(self) -> bool:
        """It was admitted, and does not have the entry yet by which that was done."""
        return self.log.last_index < self.log.vote.from_index

    @property
    def _may_vote(self) -> bool:
        """For whoever asks, member or not; but not before it has any of the cluster's log, nor
        while that log may be from before this server lost its own: what it had acknowledged then
        could be voted down."""
        return bool(self.configuration.members) and not self.is_catching_up

    @property
    def _may_stand(self) -> bool:
        """Also while its own removal is not committed: nobody else may have that entry."""
        if self._is_told_removed or self.is_catching_up:
            return False
        before = self._configurations.before.configuration
        return self.name in self.configuration.voters or self.name in before.voters

    def _begin_with(self, configuration: Configuration) -> None:
        """Until a leader has written it, only this member knows."""
        self._configurations = Configurations(Placed(0, configuration, logged=False))
        self._members_changed()

    def _belong_as_of(self, snapshot: Placed | None) -> None:
        """The log gave way to a snapshot, and what it said of members with it."""
        given = self._configurations.oldest
        self._configurations.cut_after(0)
        if snapshot is not None and (given.logged or snapshot.index > given.index):
            self._configurations = Configurations(snapshot)
        self._members_changed()

    def _append(self, term: int, payload: bytes) -> int:
        """A configuration is in force from here on."""
        index = self.log.append(term, payload)
        if payload[:1] == CONFIGURATION:
            self._configurations.append(index, decode_configuration(payload))
            self._members_changed()
        return index

    def _members_changed(self) -> None:
        """Another configuration is in force."""

    def _on_not_member(self, message: NotMember) -> None:
        """The log may lack the entry: nobody sends it to who is no member."""
        self._removed_index = max(self._removed_index, message.index)

    def _cut_after(self, index: int) -> None:
        """What was in force before an entry that is cut off is in force again."""
        self.log.cut_after(index)
        if self._configurations.cut_after(index):
            self._members_changed()

    def _commit(self, index: int) -> None:
        if index > self.commit_index:
            self.commit_index = index
            self._configurations.settle(index)
