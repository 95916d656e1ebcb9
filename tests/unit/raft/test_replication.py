"""Log replication and commits, the test playing the followers."""

from __future__ import annotations

from orchgit.raft.core import RaftCore
from orchgit.raft.messages import (
    Append,
    AppendReply,
    LogEntry,
    PreVoteReply,
    VoteReply,
)
from tests.support.raft_core import elect, lead_two_that_follow, make_core, settle
from tests.support.raft_mutants import CommitsOldTermsByCounting, CountsRepliesOfOldTerms


def test_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    """Figure 8 of the Raft paper: it could still be overwritten."""
    for core_class, commits in ((RaftCore, False), (CommitsOldTermsByCounting, True)):
        core = make_core(core_class=core_class)
        core.step("c", Append(1, 1, 0, [LogEntry(1, b"x")], 1, 0), 0.1)
        settle(core)
        elect(core, 2.0)
        core.step("b", AppendReply(2, True, 2, 0), 2.1)
        settle(core)
        assert (core.state.log.commit_index == 2) is commits
        core.step("b", AppendReply(2, True, 3, 0), 2.1)
        settle(core)
        assert core.state.log.commit_index == 3, "with the first entry of its own term"


def test_mutant_that_counts_old_replies_commits_without_a_majority() -> None:
    core = make_core(core_class=CountsRepliesOfOldTerms)
    elect(core, 2.0)
    core.step("b", Append(5, 1, 0, [LogEntry(5, b"z")], 1, 0), 2.1)
    settle(core)
    elect(core, 9.0)
    core.step("c", AppendReply(1, True, 3, 0), 9.1)
    settle(core)
    assert core.state.log.commit_index == 3, "committed without anybody having it"


def test_large_entry_is_sent_once_while_heartbeats_pass_it() -> None:
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


def test_replies_of_non_members_are_ignored() -> None:
    core = make_core()
    elect(core, 2.0)
    for reply in (AppendReply(9, True, 2, 0), VoteReply(9, True), PreVoteReply(9, False)):
        core.step("z", reply, 2.1)
    assert core.is_leader
    assert core.state.term == 1
    core.step("z", AppendReply(1, True, 2, 0), 2.1)
    settle(core)
    assert core.state.log.commit_index == 1


def test_member_that_was_just_sent_entries_gets_no_heartbeat() -> None:
    core = lead_two_that_follow()
    core.tick(2.5)
    settle(core)
    core.tick(2.58)
    core.propose(b"x")
    assert {to for to, _ in settle(core)} == {"b", "c"}
    core.tick(2.61)
    assert settle(core) == []
    core.tick(2.75)
    assert {to for to, _ in settle(core)} == {"b", "c"}
