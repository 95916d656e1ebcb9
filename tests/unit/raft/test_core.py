"""What reaches the driver: the output of a member, and what a full disk takes back."""

from __future__ import annotations

from orchgit.raft.messages import (
    Append,
    AppendReply,
    LogEntry,
    PreVote,
    PreVoteReply,
    SnapshotChunk,
    SnapshotReply,
    VoteReply,
)
from orchgit.raft.state import Role
from tests.support.raft_core import elect, make_core, storage_of


def test_full_disk_takes_back_messages_that_rest_on_the_lost_tail() -> None:
    """It stands for election, and confirms entries, with a log that it could not write."""
    core = make_core()
    core.step("c", Append(1, 1, 0, [LogEntry(1, b"x")], 2, 0), 0.1)
    core.tick(2.0)
    assert core.state.log.commit_index == 2
    assert {type(message) for _, message in core.state.outbox} == {AppendReply, PreVote}
    storage_of(core).take_back()
    core.tail_lost()
    assert core.state.outbox == [("c", AppendReply(1, False, 1, 0, 2, 0, has_room=False))]
    assert (core.state.log.commit_index, core.state.role) == (1, Role.FOLLOWER)


def test_leader_whose_first_entry_does_not_fit_steps_down() -> None:
    core = make_core()
    core.tick(2.0)
    core.step("b", PreVoteReply(core.state.term + 1, True), 2.0)
    core.step("b", VoteReply(core.state.term, True), 2.0)
    assert core.is_leader
    storage_of(core).take_back()
    core.tail_lost()
    assert core.state.role is Role.FOLLOWER


def test_snapshot_is_asked_for_again_when_entries_did_not_fit() -> None:
    """The log seemed to reach behind it, until it was to be written."""
    core = make_core()
    core.step("c", Append(1, 1, 0, [LogEntry(1, b"x"), LogEntry(1, b"y")], 1, 0), 0.1)
    core.step("c", SnapshotChunk(1, 3, 1, 10, 0, b"0123456789"), 0.1)
    assert SnapshotReply(1, 3, 0, True) in [message for _, message in core.state.outbox]
    storage_of(core).take_back()
    core.tail_lost()
    assert SnapshotReply(1, 3, 0, False) in [message for _, message in core.state.outbox]
    assert not any(getattr(message, "installed", False) for _, message in core.state.outbox)
    assert core.state.log.commit_index == 1


def test_ready_tells_each_thing_once() -> None:
    core = make_core("a")
    core.tick(0.1)
    core.propose(b"x")
    core.read("ticket")
    storage_of(core).sync()
    core.synced()
    ready = core.ready()
    assert ready.commit_index == core.state.log.last_index
    assert [ticket for ticket, _ in ready.reads] == ["ticket"]
    again = core.ready()
    assert (again.messages, again.reads, again.installed) == ([], [], None)


def test_stepping_down_ends_the_leadership_and_its_reads() -> None:
    core = make_core()
    elect(core, 2.0)
    core.read("ticket")
    core.tick(9.0)
    assert core.leading is None
    assert core.state.role is Role.FOLLOWER
    assert core.state.reads == [("ticket", None)]
