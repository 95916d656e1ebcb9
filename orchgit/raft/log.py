"""The log as the rules see it: its entries, the commit index, and the configuration in force."""

from __future__ import annotations

from collections.abc import Callable

from orchgit.raft.configuration import (
    CONFIGURATION,
    Configuration,
    ConfigurationEntry,
    ConfigurationHistory,
    decode_configuration,
)
from orchgit.raft.ports import NO_OP, LogStorage, SnapshotRef


class RaftLog:
    """`first` is the configuration until a later entry of the log names another one."""

    def __init__(self, storage: LogStorage, first: ConfigurationEntry, applied_index: int) -> None:
        self.storage = storage
        if storage.last_index == 0:
            storage.append(0, NO_OP)
            storage.sync()
        # What this member applied was committed; a rebuilt state starts again before it.
        self.commit_index = max(applied_index, 1)
        self.configurations = ConfigurationHistory(
            first,
            (
                ConfigurationEntry(index, decode_configuration(storage.record(index).payload))
                for index in storage.of_kind(CONFIGURATION)
            ),
        )
        self.configurations.forget_before(self.commit_index)
        self.on_configuration: Callable[[], None] = lambda: None
        """Called when another configuration is in force."""

    # -- reading ---------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        return self.storage.first_index

    @property
    def last_index(self) -> int:
        return self.storage.last_index

    @property
    def synced_index(self) -> int:
        return self.storage.synced_index

    @property
    def last(self) -> tuple[int, int]:
        """The index and the term of the last entry."""
        last_index = self.storage.last_index
        return last_index, self.storage.term(last_index)

    def term(self, index: int) -> int:
        """Returns the term of an entry; 0 for entries before the log's first."""
        return self.storage.term(index) if index >= self.storage.first_index else 0

    def agrees(self, index: int, term: int) -> bool:
        """Returns whether the log has an entry of that term at that index: then all entries up to
        there are the same as in the other log (the Log Matching property)."""
        return index <= self.last_index and self.term(index) == term

    @property
    def configuration(self) -> Configuration:
        """The configuration in force: the newest in the log, committed or not."""
        return self.configurations.newest.configuration

    @property
    def is_configuration_committed(self) -> bool:
        return self.configurations.newest.index <= self.commit_index

    # -- writing ---------------------------------------------------------------------------------

    def append(self, term: int, payload: bytes) -> int:
        """Appends an entry and returns its index; a configuration is in force from there on."""
        index = self.storage.append(term, payload)
        if payload[:1] == CONFIGURATION:
            self.configurations.append(index, decode_configuration(payload))
            self.on_configuration()
        return index

    def cut_after(self, index: int) -> None:
        """Drops the entries after `index`, and the configurations in them."""
        self.storage.cut_after(index)
        if self.configurations.cut_after(index):
            self.on_configuration()

    def commit(self, index: int) -> None:
        if index > self.commit_index:
            self.commit_index = index
            self.configurations.forget_before(index)

    def lost_tail(self) -> None:
        """The storage gave up what was appended and never synced."""
        self.commit_index = min(self.commit_index, self.last_index)
        if self.configurations.cut_after(self.last_index):
            self.on_configuration()

    def begin_with(self, configuration: Configuration) -> None:
        """Puts a configuration in force that only this member knows, until it leads and appends
        it."""
        first = ConfigurationEntry(0, configuration, logged=False)
        self.configurations = ConfigurationHistory(first)
        self.on_configuration()

    def restart_at(self, snapshot: SnapshotRef, members: ConfigurationEntry | None) -> None:
        """Replaces the whole log by a snapshot. The first record stands for the snapshot's entry,
        whose term has to be known; `members` are those of the snapshot."""
        self.storage.reset(snapshot.index)
        self.storage.append(snapshot.term, NO_OP)
        self.storage.sync()
        self.commit_index = snapshot.index
        given = self.configurations.oldest
        self.configurations.cut_after(0)
        if members is not None and (given.logged or members.index > given.index):
            self.configurations = ConfigurationHistory(members)
        self.on_configuration()
