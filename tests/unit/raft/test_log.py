"""The log as the rules see it: entries and the configurations in them."""

from __future__ import annotations

from orchgit.raft.configuration import Configuration, ConfigurationEntry
from orchgit.raft.log import RaftLog
from orchgit.raft.ports import NO_OP, SnapshotRef
from tests.support.raft_disk import MemoryLog

ABC, ABCD = Configuration.of("abc"), Configuration.of("abcd")


def make_log() -> tuple[RaftLog, list[Configuration]]:
    """A new log, and the configurations that come into force in it."""
    log = RaftLog(MemoryLog(), ConfigurationEntry(0, ABC, logged=False), applied_index=0)
    seen: list[Configuration] = []
    log.on_configuration = lambda: seen.append(log.configuration)
    return log, seen


def test_new_log_starts_with_a_committed_no_op() -> None:
    log, _ = make_log()
    assert log.last == (1, 0)
    assert (log.commit_index, log.synced_index) == (1, 1)
    assert log.storage.record(1).payload == NO_OP


def test_configuration_is_in_force_when_appended_and_until_it_is_cut() -> None:
    log, seen = make_log()
    index = log.append(1, ABCD.encode())
    assert log.configuration == ABCD
    assert not log.is_configuration_committed
    log.cut_after(index - 1)
    assert log.configuration == ABC
    assert seen == [ABCD, ABC]


def test_committed_configuration_is_kept_after_a_restart() -> None:
    log, _ = make_log()
    log.append(1, ABCD.encode())
    log.append(1, b"\x00")
    log.storage.sync()
    log.commit(2)
    assert log.is_configuration_committed
    again = RaftLog(log.storage, ConfigurationEntry(0, ABC, logged=False), applied_index=2)
    assert again.configuration == ABCD
    assert again.configurations.previous.configuration == ABCD, "no cut can bring back the first"


def test_lost_tail_takes_back_the_commit_index_and_configurations() -> None:
    log, seen = make_log()
    log.append(1, ABCD.encode())
    log.commit(2)
    storage = log.storage
    assert isinstance(storage, MemoryLog)
    storage.take_back()
    log.lost_tail()
    assert (log.commit_index, log.last_index) == (1, 1)
    assert seen == [ABCD], "committed configurations are never cut"


def test_logs_agree_only_where_index_and_term_are_equal() -> None:
    log, _ = make_log()
    log.append(3, b"\x00")
    assert log.agrees(2, 3)
    assert not log.agrees(2, 2)
    assert not log.agrees(3, 3)
    assert log.term(0) == 0, "entries before the log's first have no known term"


def test_snapshot_replaces_the_log_and_brings_its_members() -> None:
    log, _ = make_log()
    log.append(1, b"\x00")
    log.restart_at(SnapshotRef(9, 4, 100), ConfigurationEntry(7, ABCD))
    assert log.last == (9, 4)
    assert (log.first_index, log.commit_index, log.synced_index) == (9, 9, 9)
    assert log.configuration == ABCD
