"""A leader whose disk stays full, and one that is told to hand over: the rules one by one."""

from __future__ import annotations

import pytest

from orchgit.errors import NotLeaderError
from orchgit.raft.core import RaftCore
from orchgit.raft.messages import Append, AppendReply, TimeoutNow
from tests.support.raft_core import elect, make_core, settle


def _leader_without_room(*others: AppendReply) -> RaftCore:
    """It leads b and c, which answered so, and finds at 2.2 that it cannot write."""
    core = make_core()
    elect(core, 2.0)
    for name, reply in zip("bc", others, strict=True):
        core.step(name, reply, 2.1)
    settle(core)
    core.state.has_room = False
    core.tick(2.2)
    return core


def _pass_time(core: RaftCore, until_s: float, *others: AppendReply) -> list[str]:
    """Whom it tells to stand, while the others go on to answer so."""
    told: list[str] = []
    now_s = core.state.now_s
    while now_s < until_s:
        now_s += 0.1
        for name, reply in zip("bc", others, strict=True):
            core.step(name, reply, now_s)
        core.tick(now_s)
        told += [name for name, message in settle(core) if isinstance(message, TimeoutNow)]
    return told


HAS_ROOM, HAS_NONE = AppendReply(1, True, 2, 0), AppendReply(1, True, 2, 0, has_room=False)
IS_BEHIND = AppendReply(1, True, 1, 0)


def test_leader_with_a_full_disk_transfers_to_a_member_that_can_write() -> None:
    core = _leader_without_room(HAS_ROOM, HAS_ROOM)
    assert _pass_time(core, 5.1, HAS_ROOM, HAS_ROOM) == []
    assert set(_pass_time(core, 5.6, HAS_ROOM, HAS_ROOM)) < {"b", "c"}


def test_disk_with_room_for_a_moment_counts_as_full() -> None:
    core = _leader_without_room(HAS_ROOM, HAS_ROOM)
    for now_s in (3.0, 4.0, 5.0):
        core.state.has_room = True
        assert _pass_time(core, now_s, HAS_ROOM, HAS_ROOM) == []
        core.state.has_room = False
    assert _pass_time(core, 5.6, HAS_ROOM, HAS_ROOM)


def test_leader_whose_disk_has_room_again_keeps_the_lead() -> None:
    core = _leader_without_room(HAS_ROOM, HAS_ROOM)
    core.state.has_room = True
    assert _pass_time(core, 6.0, HAS_ROOM, HAS_ROOM) == []
    core.state.has_room = False
    assert _pass_time(core, 8.0, HAS_ROOM, HAS_ROOM) == []


@pytest.mark.parametrize(
    "others", [(HAS_NONE, HAS_ROOM), (HAS_NONE, HAS_NONE), (IS_BEHIND, IS_BEHIND)]
)
def test_leader_with_a_full_disk_stays_where_the_others_could_not_commit(
    others: tuple[AppendReply, ...],
) -> None:
    """For the sake of reads that have to be current."""
    core = _leader_without_room(*others)
    assert _pass_time(core, 9.0, *others) == []
    assert core.is_leader


def test_refused_transfer_names_the_reason() -> None:
    core = _leader_without_room(HAS_ROOM, HAS_NONE)
    assert core.transfer("b") is None
    assert "its disk is full" in str(core.transfer("c"))
    assert "not another member with a vote" in str(core.transfer("a"))
    core.step("c", HAS_ROOM, 3.0)
    core.tick(3.15)
    assert "has not answered for 1.0 s" in str(core.transfer("b"))
    core.step("c", Append(7, 1, 0, [], 1, 0), 3.2)
    assert isinstance(core.transfer("c"), NotLeaderError)


def test_reply_says_whether_the_follower_has_room() -> None:
    core = make_core()
    core.step("b", Append(1, 1, 0, [], 1, 0), 0.1)
    core.state.has_room = False
    core.step("b", Append(1, 1, 0, [], 1, 0), 0.2)
    core.step("b", Append(1, 9, 1, [], 1, 0), 0.2)
    said = [reply.has_room for _, reply in settle(core) if isinstance(reply, AppendReply)]
    assert said == [True, False, False]


def test_transfer_waits_until_the_target_has_everything() -> None:
    core = make_core()
    elect(core, 2.0)
    core.step("b", AppendReply(1, True, 2, 0), 2.1)
    assert core.propose(b"x") == 3
    assert core.transfer("b") is None
    assert core.propose(b"y") is None, "no new entries meanwhile"
    assert not any(isinstance(m, TimeoutNow) for _, m in settle(core))
    core.step("b", AppendReply(1, True, 3, 0), 2.2)
    assert ("b", TimeoutNow(1)) in settle(core)
    core.step("c", AppendReply(1, True, 3, 0), 2.9)
    core.tick(3.2)
    assert core.propose(b"y") == 4, "given up: the heir did not stand"
