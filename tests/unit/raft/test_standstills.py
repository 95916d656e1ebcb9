"""A member that stood still does not take its own standstill for the silence of the others."""

from __future__ import annotations

from orchgit.raft.messages import Append, AppendReply, PreVote, PreVoteReply
from orchgit.raft.standstills import Standstills
from orchgit.raft.state import Role
from tests.support.raft_core import elect, make_core, settle

LONG_S = 30.0


def test_time_awake_leaves_standstills_out() -> None:
    standstills = Standstills()
    assert standstills.awake_since(10.0, 1.0) == 9.0
    standstills.add(9.5, 2.0)
    assert standstills.awake_since(10.0, 0.4) == 9.6, "after it"
    assert standstills.awake_since(10.0, 1.0) == 7.0, "half before it, half after it"
    standstills.add(12.5, 2.0)
    found_s = standstills.awake_since(13.0, 1.75)
    assert found_s == 7.25, "0.25 before both, 1.0 between, 0.5 after"
    assert standstills.awake_since(20.0, 1.0) == 19.0


def test_follower_that_stood_still_waits_for_the_rest_of_its_time_out() -> None:
    core = make_core()
    core.step("b", Append(1, 1, 0, [], 1, 0), 10.0)
    settle(core)
    left_s = core.election.deadline_s - 10.1
    assert 0.3 < left_s < 1.0
    core.stood_still(LONG_S, 10.1 + LONG_S)
    core.tick(10.1 + LONG_S)
    core.tick(10.0 + LONG_S + left_s)
    assert (core.state.role, core.state.leader) == (Role.FOLLOWER, "b")
    core.tick(10.2 + LONG_S + left_s)
    assert core.state.role is Role.PRE_CANDIDATE


def test_leader_that_stood_still_steps_down_only_after_a_time_out_awake() -> None:
    core = make_core()
    elect(core, 2.0)
    core.step("b", AppendReply(1, True, 2, 0), 2.1)
    core.tick(2.6)
    core.stood_still(LONG_S, 2.6 + LONG_S)
    core.tick(2.6 + LONG_S)
    core.tick(3.05 + LONG_S)
    assert core.is_leader, "0.95 s awake since b answered"
    core.tick(3.2 + LONG_S)
    assert core.state.role is Role.FOLLOWER


def test_standstill_does_not_make_the_confirmation_of_a_leader_newer() -> None:
    core = make_core()
    elect(core, 2.0)
    core.tick(2.1)
    rounds = {message.round for _, message in settle(core) if isinstance(message, Append)}
    core.step("b", AppendReply(1, True, 2, max(rounds)), 2.15)
    settle(core)
    confirmed_s = core.confirmed_s
    assert 2.0 <= confirmed_s <= 2.1
    core.stood_still(LONG_S, 2.2 + LONG_S)
    core.tick(2.2 + LONG_S)
    settle(core)
    assert core.is_leader
    assert core.confirmed_s == confirmed_s


def test_voter_that_stood_still_helps_to_replace_a_leader_not_heard_of_in_real_time() -> None:
    core = make_core()
    core.step("b", Append(1, 1, 0, [], 1, 0), 1.0)
    settle(core)
    core.stood_still(0.4, 1.45)
    core.step("c", PreVote(9, 99, 9), 1.45)
    assert core.state.outbox.pop() == ("c", PreVoteReply(1, False))
    core.step("c", PreVote(9, 99, 9), 1.55)
    assert core.state.outbox.pop() == ("c", PreVoteReply(9, True))
