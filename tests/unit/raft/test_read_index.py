"""Current reads, and until when a leader is certain that it leads."""

from __future__ import annotations

import math

from orchgit.raft.messages import (
    Append,
    AppendReply,
)
from orchgit.raft.state import Role
from tests.support.raft_core import elect, lead_two_that_follow, make_core, settle


def test_leader_without_a_majority_steps_down_within_an_election_time_out() -> None:
    core = make_core()
    elect(core, 2.0)
    core.tick(2.9)
    assert core.is_leader
    core.step("b", AppendReply(1, True, 2, 0), 2.9)
    core.tick(3.8)
    assert core.is_leader
    core.tick(3.95)
    assert core.state.role is Role.FOLLOWER
    assert core.state.leader is None
    assert core.propose(b"x") is None


def test_read_waits_for_replies_to_a_round_that_began_after_it() -> None:
    core = make_core()
    elect(core, 2.0)
    core.step("b", AppendReply(1, True, 2, 0), 2.1)
    settle(core)
    core.read("mine")
    core.step("b", AppendReply(1, True, 2, 0), 2.2)
    sent = settle(core)
    assert not core.state.reads, "an answer to an earlier question"
    rounds = {message.round for _, message in sent if isinstance(message, Append)}
    core.step("b", AppendReply(1, True, 2, max(rounds)), 2.2)
    settle(core)
    assert core.state.reads == [("mine", 2)]


def test_refusal_of_an_earlier_term_confirms_no_round() -> None:
    """Its sender may have been elected again, after a restart with rounds that begin anew."""
    core = make_core()
    core.step("b", Append(5, 1, 0, [], 1, 0), 0.1)
    settle(core)
    core.step("c", Append(3, 1, 0, [], 1, round=44), 0.2)
    (refusal,) = [message for _, message in settle(core) if isinstance(message, AppendReply)]
    assert (refusal.term, refusal.accepted, refusal.round) == (5, False, 0)


def test_read_is_refused_when_the_leader_is_deposed() -> None:
    core = make_core()
    elect(core, 2.0)
    core.read("mine")
    core.step("c", Append(7, 1, 0, [], 1, 0), 2.1)
    assert core.state.reads == [("mine", None)]


def test_leader_is_confirmed_as_of_when_it_asked_not_of_when_it_read_the_answers() -> None:
    core = make_core()
    elect(core, 2.0)
    beat = core.state.round
    assert core.confirmed_s == -math.inf
    core.step("b", AppendReply(core.state.term, True, 1, beat), 2.1)
    assert core.confirmed_s == 2.0
    core.tick(2.2)
    later = core.state.round
    # The process stood still for ten seconds; the answer had come before.
    core.step("b", AppendReply(core.state.term, True, 1, later), 12.0)
    assert core.confirmed_s == 2.2


def test_leader_that_transfers_or_follows_is_not_confirmed() -> None:
    core = make_core()
    elect(core, 2.0)
    core.step(
        "b", AppendReply(core.state.term, True, core.state.log.last_index, core.state.round), 2.1
    )
    assert core.confirmed_s == 2.0
    assert core.transfer("b") is None
    settle(core)
    core.step(
        "c", AppendReply(core.state.term, True, core.state.log.last_index, core.state.round), 2.15
    )
    assert core.confirmed_s == -math.inf
    core.step("b", Append(core.state.term + 1, 0, 0, [], 0, 0), 2.2)
    assert core.confirmed_s == -math.inf


def test_sole_member_is_confirmed_for_ever() -> None:
    core = make_core("a")
    core.tick(0.1)
    assert core.is_leader
    assert core.confirmed_s == math.inf


def test_leader_awaits_only_redundant_replies_unless_a_commit_or_a_read_needs_one() -> None:
    core = lead_two_that_follow()
    core.propose(b"x")
    settle(core)
    assert not core.awaits_only_redundant_replies, "nothing is committed without one"
    core.step("b", AppendReply(core.state.term, True, 3, 0), 2.2)
    settle(core)
    assert core.awaits_only_redundant_replies
    core.read("ticket")
    assert not core.awaits_only_redundant_replies, "a read waits for one"
    settle(core)
    core.step("c", AppendReply(core.state.term, True, 3, core.state.round), 2.2)
    settle(core)
    assert core.state.reads
    assert not core.awaits_only_redundant_replies, "all have answered"
