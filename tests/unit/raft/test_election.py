"""Terms, votes and elections, the test playing the other members."""

from __future__ import annotations

from orchgit.raft.messages import (
    Append,
    LogEntry,
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from tests.support.raft_core import make_core, settle, storage_of


def test_voter_with_a_leader_refuses_candidates() -> None:
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


def test_voter_votes_once_in_a_term_even_after_a_restart() -> None:
    core = make_core()
    core.step("b", RequestVote(3, 5, 2), 1.0)
    assert core.state.outbox.pop() == ("b", VoteReply(3, True))
    again = make_core(log=storage_of(core))
    again.step("c", RequestVote(3, 5, 2), 1.0)
    assert again.state.outbox.pop() == ("c", VoteReply(3, False))
    again.step("b", RequestVote(3, 5, 2), 1.0)
    assert again.state.outbox.pop() == ("b", VoteReply(3, True))


def test_candidate_with_a_shorter_log_gets_no_vote() -> None:
    core = make_core()
    core.step("b", Append(2, 1, 0, [LogEntry(2, b"x")], 1, 0), 0.1)
    settle(core)
    for last_index, last_term, granted in ((9, 1, False), (1, 2, False), (2, 2, True)):
        core.step("c", RequestVote(core.state.term + 1, last_index, last_term), 5.0)
        assert core.state.outbox.pop()[1] == VoteReply(core.state.term, granted)


def test_transfer_target_stands_at_once_and_is_elected_despite_the_leader() -> None:
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
