"""The core's rules one by one, the test playing the other members."""

from __future__ import annotations

import math

from orchgit.raft.core import RaftCore
from orchgit.raft.messages import (
    Append,
    AppendReply,
    Entry,
    PreVote,
    PreVoteReply,
    RequestVote,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from orchgit.raft.state import Role
from tests.support.raft_core import elect, make_core, settle, storage_of
from tests.support.raft_mutants import CommitsOldTermsByCounting, CountsRepliesOfOldTerms


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    """Figure 8 of the Raft paper: it could still be overwritten."""
    for core_class, commits in ((RaftCore, False), (CommitsOldTermsByCounting, True)):
        core = make_core(core_class=core_class)
        core.step("c", Append(1, 1, 0, [Entry(1, b"x")], 1, 0), 0.1)
        settle(core)
        elect(core, 2.0)
        core.step("b", AppendReply(2, True, 2, 0), 2.1)
        settle(core)
        assert (core.state.log.commit_index == 2) is commits
        core.step("b", AppendReply(2, True, 3, 0), 2.1)
        settle(core)
        assert core.state.log.commit_index == 3, "with the first entry of its own term"


def test_a_mutant_that_counts_old_replies_is_what_the_library_does() -> None:
    core = make_core(core_class=CountsRepliesOfOldTerms)
    elect(core, 2.0)
    core.step("b", Append(5, 1, 0, [Entry(5, b"z")], 1, 0), 2.1)
    settle(core)
    elect(core, 9.0)
    core.step("c", AppendReply(1, True, 3, 0), 9.1)
    settle(core)
    assert core.state.log.commit_index == 3, "committed without anybody having it"


def test_a_member_that_lost_touch_does_not_disturb() -> None:
    core = make_core()
    core.step("b", Append(1, 1, 0, [], 1, 0), 1.0)
    settle(core)
    core.step("c", PreVote(9, 99, 9), 1.2)
    assert core.state.outbox.pop() == ("c", PreVoteReply(1, False))
    core.step("c", RequestVote(9, 99, 9), 1.2)
    assert not core.state.outbox
    assert core.state.term == 1
    core.step("c", PreVote(9, 99, 9), 1.6)
    assert core.state.outbox.pop() == ("c", PreVoteReply(9, True))
    assert core.state.term == 1, "asking changes nobody's term"


def test_one_vote_in_a_term_also_after_a_restart() -> None:
    core = make_core()
    core.step("b", RequestVote(3, 5, 2), 1.0)
    assert core.state.outbox.pop() == ("b", VoteReply(3, True))
    again = make_core(log=storage_of(core))
    again.step("c", RequestVote(3, 5, 2), 1.0)
    assert again.state.outbox.pop() == ("c", VoteReply(3, False))
    again.step("b", RequestVote(3, 5, 2), 1.0)
    assert again.state.outbox.pop() == ("b", VoteReply(3, True))


def test_a_log_that_is_behind_gets_no_vote() -> None:
    core = make_core()
    core.step("b", Append(2, 1, 0, [Entry(2, b"x")], 1, 0), 0.1)
    settle(core)
    for last_index, last_term, granted in ((9, 1, False), (1, 2, False), (2, 2, True)):
        core.step("c", RequestVote(core.state.term + 1, last_index, last_term), 5.0)
        assert core.state.outbox.pop()[1] == VoteReply(core.state.term, granted)


def test_a_leader_without_a_majority_steps_down_within_an_election_time_out() -> None:
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


def test_a_current_read_waits_for_answers_that_were_asked_for_after_it() -> None:
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


def test_a_large_entry_is_sent_once_while_heartbeats_pass_it() -> None:
    core = make_core()
    elect(core, 2.0)
    for name in "bc":
        core.step(name, AppendReply(1, True, 2, 0), 2.1)
    settle(core)
    core.propose(bytes(4 << 20))
    assert sum(bool(m.entries) for _, m in settle(core) if isinstance(m, Append)) == 2
    core.tick(2.3)
    beats = [m for _, m in settle(core) if isinstance(m, Append)]
    assert [(m.prev_index, m.entries) for m in beats] == [(0, [])] * 2
    core.step("b", AppendReply(1, True, 3, 0), 2.4)
    core.tick(2.45)
    after = {name: m.prev_index for name, m in settle(core) if isinstance(m, Append)}
    assert after == {"b": 3, "c": 0}, "it has the entry; c may still be receiving it"


def test_a_read_of_a_leader_that_is_overthrown_is_refused() -> None:
    core = make_core()
    elect(core, 2.0)
    core.read("mine")
    core.step("c", Append(7, 1, 0, [], 1, 0), 2.1)
    assert core.state.reads == [("mine", None)]


def test_handing_over_waits_until_the_heir_has_everything() -> None:
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


def test_the_heir_stands_at_once_and_is_voted_for_despite_the_leader() -> None:
    heir, other = make_core(), make_core()
    for one in (heir, other):
        one.step("b", Append(1, 1, 0, [], 1, 0), 1.0)
        settle(one)
    heir.step("c", TimeoutNow(1), 1.1)
    assert not heir.state.outbox, "not from a member that does not lead"
    heir.step("b", TimeoutNow(1), 1.1)
    (request,) = {message for _, message in heir.state.outbox if isinstance(message, RequestVote)}
    other.step("c", request, 1.1)
    assert other.state.outbox.pop() == ("c", VoteReply(2, True))


def test_what_a_stranger_answers_is_not_heard() -> None:
    core = make_core()
    elect(core, 2.0)
    for reply in (AppendReply(9, True, 2, 0), VoteReply(9, True), PreVoteReply(9, False)):
        core.step("z", reply, 2.1)
    assert core.is_leader
    assert core.state.term == 1
    core.step("z", AppendReply(1, True, 2, 0), 2.1)
    settle(core)
    assert core.state.log.commit_index == 1


def test_a_full_disk_takes_back_what_rests_on_the_lost_tail() -> None:
    """It stands for election, and confirms entries, with a log that it could not write."""
    core = make_core()
    core.step("c", Append(1, 1, 0, [Entry(1, b"x")], 2, 0), 0.1)
    core.tick(2.0)
    assert core.state.log.commit_index == 2
    assert {type(message) for _, message in core.state.outbox} == {AppendReply, PreVote}
    storage_of(core).take_back()
    core.tail_lost()
    assert core.state.outbox == [("c", AppendReply(1, False, 1, 0, 2, 0, has_room=False))]
    assert (core.state.log.commit_index, core.state.role) == (1, Role.FOLLOWER)


def test_a_leader_whose_first_entry_does_not_fit_leads_no_more() -> None:
    core = make_core()
    core.tick(2.0)
    core.step("b", PreVoteReply(core.state.term + 1, True), 2.0)
    core.step("b", VoteReply(core.state.term, True), 2.0)
    assert core.is_leader
    storage_of(core).take_back()
    core.tail_lost()
    assert core.state.role is Role.FOLLOWER


def test_a_snapshot_is_not_passed_over_for_entries_that_did_not_fit() -> None:
    """The log seemed to reach behind it, until it was to be written."""
    core = make_core()
    core.step("c", Append(1, 1, 0, [Entry(1, b"x"), Entry(1, b"y")], 1, 0), 0.1)
    core.step("c", SnapshotChunk(1, 3, 1, 10, 0, b"0123456789"), 0.1)
    assert SnapshotReply(1, 3, 0, True) in [message for _, message in core.state.outbox]
    storage_of(core).take_back()
    core.tail_lost()
    assert SnapshotReply(1, 3, 0, False) in [message for _, message in core.state.outbox]
    assert not any(getattr(message, "installed", False) for _, message in core.state.outbox)
    assert core.state.log.commit_index == 1


def test_a_commit_is_told_with_the_next_entries_or_soon_after_without() -> None:
    core = make_core()
    elect(core, 2.0)
    # Both answer the first question, so that entries go to them as they come.
    core.step("b", AppendReply(core.state.term, True, 2, 0), 2.1)
    core.step("c", AppendReply(core.state.term, True, 2, 0), 2.1)
    settle(core)
    core.propose(b"x")
    settle(core)
    core.step("b", AppendReply(core.state.term, True, 3, 0), 2.2)
    assert settle(core) == [], "it waits for entries to go with"
    assert core.state.log.commit_index == 3
    assert core.notify_s is not None
    core.propose(b"y")
    told = settle(core)
    assert [(to, len(m.entries), m.commit_index) for to, m in told if isinstance(m, Append)] == [
        ("b", 1, 3),
        ("c", 1, 3),
    ]
    assert core.notify_s is None
    core.step("b", AppendReply(core.state.term, True, 4, 0), 2.3)
    assert settle(core) == []
    assert core.notify_s is not None
    core.tick(core.notify_s)
    told = settle(core)
    assert [(to, len(m.entries), m.commit_index) for to, m in told if isinstance(m, Append)] == [
        ("b", 0, 4),
        ("c", 0, 4),
    ]
    assert core.notify_s is None


def leading_two_that_follow() -> RaftCore:
    core = make_core()
    elect(core, 2.0)
    for name in "bc":
        core.step(name, AppendReply(core.state.term, True, 2, 0), 2.1)
    settle(core)
    assert core.notify_s is not None
    core.tick(core.notify_s)
    settle(core)
    return core


def test_where_entries_come_often_a_commit_waits_longer_for_them() -> None:
    core = leading_two_that_follow()
    waits: list[float] = []
    for now_s in (3.0, 3.003, 3.5):
        core.tick(now_s)
        core.propose(b"x")
        settle(core)
        core.step("b", AppendReply(core.state.term, True, core.state.log.last_index, 0), now_s)
        settle(core)
        assert core.notify_s is not None
        waits.append(round(core.notify_s - now_s, 4))
    assert waits == [0.002, 0.008, 0.002]


def test_who_was_sent_entries_just_now_needs_no_heartbeat() -> None:
    core = leading_two_that_follow()
    core.tick(2.5)
    settle(core)
    core.tick(2.58)
    core.propose(b"x")
    assert {to for to, _ in settle(core)} == {"b", "c"}
    core.tick(2.61)
    assert settle(core) == []
    core.tick(2.75)
    assert {to for to, _ in settle(core)} == {"b", "c"}


def test_a_follower_that_does_not_answer_keeps_nobody_awake() -> None:
    core = make_core()
    elect(core, 2.0)
    core.step("b", AppendReply(core.state.term, True, 2, 0), 2.05)
    settle(core)
    assert core.notify_s is not None
    core.tick(core.notify_s)
    settle(core)
    assert core.leading.tracker.peers["b"].sent_commit == core.state.log.commit_index == 2
    assert core.leading.tracker.peers["c"].sent_commit < 2
    assert core.notify_s is None


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


def test_leader_that_hands_over_or_follows_is_not_confirmed() -> None:
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
