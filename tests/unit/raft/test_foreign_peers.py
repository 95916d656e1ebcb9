"""Two clusters that meet at one address, since a server that lost its disk formed its own."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from orchgit.raft.core import RaftCore
from orchgit.raft.messages import (
    Append,
    AppendReply,
    LogEntry,
    OtherLog,
    PreVote,
    RequestVote,
    RulingMessage,
    SnapshotChunk,
    TimeoutNow,
)
from orchgit.raft.ports import Vote
from orchgit.raft_node.foreign_peers import ForeignPeerReport
from tests.support.raft_core import elect, make_core, settle, storage_of

FOREIGN = [
    Append(9, 1, 0, [LogEntry(9, b"\x00theirs")], 2, 0, "old"),
    Append(9, 0, 0, [], 0, 0, "old"),
    SnapshotChunk(9, 5, 9, 4, 0, b"data", "old"),
    TimeoutNow(9, "old"),
    PreVote(10, 99, 9, "old"),
    RequestVote(9, 99, 9, True, "old"),
]


def alone(log_id: str) -> RaftCore:
    """It has begun anew, at an address where a member of another cluster was."""
    core = make_core("a")
    core.tick(0.0)
    settle(core)
    assert core.is_leader
    core.state.log_id = log_id
    return core


def position(core: RaftCore) -> tuple[int, int, int, Vote]:
    log = core.state.log
    return core.state.term, log.last_index, log.commit_index, storage_of(core).vote


@pytest.mark.parametrize("message", FOREIGN)
def test_message_of_another_log_is_answered_and_ignored(message: RulingMessage) -> None:
    core = alone("new")
    before = (
        core.state.term,
        core.state.log.last_index,
        core.state.log.commit_index,
        storage_of(core).vote,
    )
    core.step("b", message, 5.0)
    assert core.state.outbox == [("b", OtherLog(core.state.term, "new"))]
    assert (
        core.state.term,
        core.state.log.last_index,
        core.state.log.commit_index,
        storage_of(core).vote,
    ) == before
    assert core.is_leader
    assert core.membership.foreign_peers == {"b": "old"}


@pytest.mark.parametrize("message", FOREIGN)
def test_new_cluster_without_a_log_id_ignores_leaders_and_candidates(
    message: RulingMessage,
) -> None:
    """The other cluster may be what it was a member of a moment ago."""
    core = alone("")
    before = (
        core.state.term,
        core.state.log.last_index,
        core.state.log.commit_index,
        storage_of(core).vote,
    )
    core.step("b", message, 5.0)
    assert core.state.outbox == []
    assert (
        core.state.term,
        core.state.log.last_index,
        core.state.log.commit_index,
        storage_of(core).vote,
    ) == before
    assert core.is_leader


def test_former_leader_does_not_count_a_member_of_another_cluster() -> None:
    core = make_core()
    core.state.log_id = "old"
    elect(core, 2.0)
    core.step("b", AppendReply(1, True, 2, 0), 2.1)
    for now_s in (2.2, 2.3, 2.4):
        core.step("c", OtherLog(7, "new"), now_s)
    assert core.is_leader
    assert core.state.term == 1
    assert core.membership.foreign_peers == {"c": "new"}
    (silent,) = [one for one in core.peer_progress() if one.address == "c"]
    assert silent.match_index == 0
    assert silent.last_contact_s == pytest.approx(0.4)


def test_member_that_does_not_know_its_log_id_follows_and_is_answered() -> None:
    core = make_core()
    core.step("b", Append(1, 1, 0, [LogEntry(1, b"x")], 1, 0, "old"), 0.1)
    assert core.state.log.last_index == 2
    core.state.log_id = "old"
    core.step("c", PreVote(2, 2, 1), 2.0)
    assert [type(message).__name__ for _, message in core.state.outbox] == [
        "AppendReply",
        "PreVoteReply",
    ]
    assert core.membership.foreign_peers == {}


def test_each_foreign_peer_is_reported_once() -> None:
    report = ForeignPeerReport()
    with capture_logs() as lines:
        for _ in range(3):
            report.report({"10.0.0.1:4648": "new"}, "old")
        report.report({"10.0.0.1:4648": "newer"}, "old")
    assert [(line["server"], line["its_log"], line["own_log"]) for line in lines] == [
        ("10.0.0.1:4648", "new", "old"),
        ("10.0.0.1:4648", "newer", "old"),
    ]
    assert "server_join" in lines[0]["event"]
