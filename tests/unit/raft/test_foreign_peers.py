"""Two clusters that meet at one address, since a server that lost its disk formed its own."""

from __future__ import annotations

import random

import pytest
from structlog.testing import capture_logs

from orchgit.raft.configuration import Configuration, Placed
from orchgit.raft.core import RaftCore
from orchgit.raft.election import Timing
from orchgit.raft.messages import (
    Append,
    AppendReply,
    Entry,
    OtherLog,
    PreVote,
    RequestVote,
    Ruling,
    SnapshotChunk,
    TimeoutNow,
)
from orchgit.raft_node.foreign_peers import Strangers
from tests.support.raft_disk import MemoryLog, MemorySnapshots
from tests.unit.raft.test_core import elect, make, settle

FOREIGN = [
    Append(9, 1, 0, [Entry(9, b"\x00theirs")], 2, 0, "old"),
    Append(9, 0, 0, [], 0, 0, "old"),
    SnapshotChunk(9, 5, 9, 4, 0, b"data", "old"),
    TimeoutNow(9, "old"),
    PreVote(10, 99, 9, "old"),
    RequestVote(9, 99, 9, True, "old"),
]


def alone(log_id: str) -> RaftCore:
    """It has begun anew, at an address where a member of another cluster was."""
    core = RaftCore(
        *("a", Placed(0, Configuration.of("a")), MemoryLog(), MemorySnapshots()),
        *(random.Random(1), Timing(), 1, 0.0),
    )
    core.tick(0.0)
    settle(core)
    assert core.is_leader
    core.log_id = log_id
    return core


@pytest.mark.parametrize("message", FOREIGN)
def test_who_speaks_of_another_log_is_told_and_not_heard(message: Ruling) -> None:
    core = alone("new")
    before = (core.term, core.log.last_index, core.commit_index, core.log.vote)
    core.receive("b", message, 5.0)
    assert core.outbox == [("b", OtherLog(core.term, "new"))]
    assert (core.term, core.log.last_index, core.commit_index, core.log.vote) == before
    assert core.is_leader
    assert core.strangers == {"b": "old"}


@pytest.mark.parametrize("message", FOREIGN)
def test_before_its_log_has_an_id_it_hears_nobody(message: Ruling) -> None:
    """The other cluster may be what it was a member of a moment ago."""
    core = alone("")
    before = (core.term, core.log.last_index, core.commit_index, core.log.vote)
    core.receive("b", message, 5.0)
    assert core.outbox == []
    assert (core.term, core.log.last_index, core.commit_index, core.log.vote) == before
    assert core.is_leader


def test_the_former_leader_counts_it_out() -> None:
    core = make()
    core.log_id = "old"
    elect(core, 2.0)
    core.receive("b", AppendReply(1, True, 2, 0), 2.1)
    for now_s in (2.2, 2.3, 2.4):
        core.receive("c", OtherLog(7, "new"), now_s)
    assert core.is_leader
    assert core.term == 1
    assert core.strangers == {"c": "new"}
    (silent,) = [one for one in core.peer_progress() if one.address == "c"]
    assert silent.match_index == 0
    assert silent.last_contact_s == pytest.approx(0.4)


def test_a_member_that_does_not_know_its_log_yet_hears_and_is_heard() -> None:
    core = make()
    core.receive("b", Append(1, 1, 0, [Entry(1, b"x")], 1, 0, "old"), 0.1)
    assert core.log.last_index == 2
    core.log_id = "old"
    core.receive("c", PreVote(2, 2, 1), 2.0)
    assert [type(message).__name__ for _, message in core.outbox] == ["AppendReply", "PreVoteReply"]
    assert core.strangers == {}


def test_people_are_told_once_of_each() -> None:
    strangers = Strangers()
    with capture_logs() as lines:
        for _ in range(3):
            strangers.met({"10.0.0.1:4648": "new"}, "old")
        strangers.met({"10.0.0.1:4648": "newer"}, "old")
    assert [(line["server"], line["its_log"], line["own_log"]) for line in lines] == [
        ("10.0.0.1:4648", "new", "old"),
        ("10.0.0.1:4648", "newer", "old"),
    ]
    assert "server_join" in lines[0]["event"]
