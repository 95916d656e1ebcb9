"""Changes of the members, one rule at a time, the test playing the other members."""

from __future__ import annotations

import random

import msgspec
import pytest

from orchgit.errors import RefusedError, UnavailableError
from orchgit.raft.configuration import Configuration, ConfigurationEntry, Member, MemberChange
from orchgit.raft.core import RaftConfig, RaftCore
from orchgit.raft.messages import (
    Append,
    AppendReply,
    LogEntry,
    Message,
    NotMember,
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from orchgit.raft.state import Role
from tests.support.raft_core import make_core, settle, storage_of
from tests.support.raft_disk import MemoryLog, MemorySnapshots


def lead(core: RaftCore, now_s: float = 2.0) -> RaftCore:
    """Elected by `b`, its first entry committed."""
    core.tick(now_s)
    for voter in core.state.log.configuration.voters - {core.state.name}:
        core.step(voter, PreVoteReply(core.state.term + 1, True), now_s)
    for voter in core.state.log.configuration.voters - {core.state.name}:
        core.step(voter, VoteReply(core.state.term, True), now_s)
    settle(core)
    acknowledge(core, *core.membership.others, now_s=now_s)
    assert core.is_leader
    return core


def acknowledge(core: RaftCore, *names: str, now_s: float = 2.1) -> list[tuple[str, Message]]:
    """They have everything."""
    for name in names:
        core.step(name, AppendReply(core.state.term, True, core.state.log.last_index, 0), now_s)
    return settle(core)


def members(core: RaftCore) -> dict[str, bool]:
    return {one.address: one.voter for one in core.state.log.configuration.members}


def entry(term: int, **voters: bool) -> LogEntry:
    members = tuple(Member(name, voter) for name, voter in voters.items())
    return LogEntry(term, Configuration(members).encode())


def test_learner_gets_everything_and_counts_for_no_majority() -> None:
    core = lead(make_core("ab"))
    index = core.change_members(MemberChange("z", voter=False))
    assert members(core) == {"a": True, "b": True, "z": False}, "in force when it is appended"
    assert "z" in {receiver for receiver, _ in settle(core)}
    acknowledge(core, "z")
    assert core.state.log.commit_index < (index or 0), "a learner commits nothing"
    acknowledge(core, "b")
    assert core.state.log.commit_index == index
    core.step("b", AppendReply(core.state.term, True, core.state.log.last_index, 0), 2.2)
    core.step("z", AppendReply(core.state.term, True, core.state.log.last_index, 9), 3.1)
    core.tick(3.3)
    assert core.state.role is Role.FOLLOWER, "nor does hearing of one keep the leadership"


def test_learner_is_not_asked_for_its_vote_and_does_not_stand() -> None:
    core = make_core("ab")
    core.step("b", Append(1, 1, 0, [entry(1, a=False, b=True)], 2, 0), 0.1)
    settle(core)
    core.tick(9.0)
    assert core.state.role is Role.FOLLOWER
    core.step("b", TimeoutNow(1), 9.0)
    assert core.state.role is Role.FOLLOWER
    voter = make_core("ab")
    voter.step("b", Append(1, 1, 0, [entry(1, a=True, b=True, z=False)], 2, 0), 0.1)
    settle(voter)
    voter.tick(9.0)
    assert {receiver for receiver, _ in settle(voter)} == {"b"}


def test_second_change_is_refused_until_the_first_is_committed() -> None:
    core = lead(make_core("ab"))
    core.change_members(MemberChange("y", voter=False))
    with pytest.raises(UnavailableError, match="another change"):
        core.change_members(MemberChange("z", voter=False))
    settle(core)
    acknowledge(core, "b")
    assert core.change_members(MemberChange("z", voter=False))


def test_change_is_refused_before_the_leader_has_committed_an_entry_of_its_own() -> None:
    """An earlier leader's uncommitted change may still come into force (the bug of 2015)."""
    core = make_core("ab")
    core.tick(2.0)
    core.step("b", PreVoteReply(1, True), 2.0)
    core.step("b", VoteReply(1, True), 2.0)
    assert core.is_leader
    with pytest.raises(UnavailableError, match="not committed yet"):
        core.change_members(MemberChange("z", voter=False))


def test_change_that_is_cut_off_is_no_longer_in_force() -> None:
    core = lead(make_core("abc"))
    core.change_members(MemberChange("z", voter=False))
    assert "z" in members(core)
    core.step("b", Append(9, core.state.log.last_index - 1, 1, [LogEntry(9, b"\x01")], 2, 0), 2.2)
    assert members(core) == dict.fromkeys("abc", True)


def test_learner_gets_a_vote_only_when_it_keeps_up() -> None:
    core = lead(make_core("ab"))
    core.change_members(MemberChange("z", voter=False))
    settle(core)
    acknowledge(core, "b")
    with pytest.raises(RefusedError, match="does not keep up with the log yet"):
        core.change_members(MemberChange("z", voter=True))
    core.step("z", AppendReply(core.state.term, False, 1, 0, core.state.log.last_index - 1, 0), 2.2)
    acknowledge(core, "z", now_s=2.3)
    core.step("b", AppendReply(core.state.term, True, core.state.log.last_index, 0), 2.9)
    core.tick(2.95)
    with pytest.raises(RefusedError, match="does not keep up with the log yet"):
        core.change_members(MemberChange("z", voter=True))
    acknowledge(core, "z", now_s=2.96)
    acknowledge(core, "z", now_s=3.0)
    index = core.change_members(MemberChange("z", voter=True))
    settle(core)
    acknowledge(core, "b", now_s=3.1)
    assert core.state.log.commit_index == index
    assert members(core) == {"a": True, "b": True, "z": True}


def test_vote_for_a_non_member_is_refused() -> None:
    with pytest.raises(RefusedError, match="it is no member"):
        lead(make_core("ab")).change_members(MemberChange("z", voter=True))


def test_removed_leader_leads_until_its_removal_is_committed_without_its_own_vote() -> None:
    core = lead(make_core("abc"))
    index = core.change_members(MemberChange("a", voter=None))
    settle(core)
    acknowledge(core, "b")
    assert core.is_leader, "its own copy does not count: b is one of two"
    sent = acknowledge(core, "c")
    assert core.state.log.commit_index == index
    assert core.state.role is Role.FOLLOWER
    assert any(isinstance(message, TimeoutNow) for _, message in sent), "the next may stand at once"
    core.tick(99.0)
    assert core.state.role is Role.FOLLOWER, "it is no member any more"


def test_removed_member_stands_while_no_other_member_has_the_entry() -> None:
    """Else nobody could be elected: its log is ahead of all others."""
    core = lead(make_core("ab"))
    core.change_members(MemberChange("a", voter=None))
    settle(core)
    again = make_core("ab", log=storage_of(core))
    again.tick(9.0)
    assert ("b", PreVote(2, *again.state.log.last)) in again.state.outbox
    again.step("b", PreVoteReply(2, True), 9.0)
    again.step("b", VoteReply(2, True), 9.0)
    assert again.is_leader
    settle(again)
    acknowledge(again, "b", now_s=9.1)
    assert again.state.role is Role.FOLLOWER
    assert again.is_removed


def test_removal_of_the_only_voter_is_refused() -> None:
    core = lead(make_core("a"))
    core.change_members(MemberChange("z", voter=False))
    settle(core)
    with pytest.raises(RefusedError, match="the only member with a vote"):
        core.change_members(MemberChange("a", voter=None))


def test_change_to_what_is_the_case_already_appends_no_configuration() -> None:
    core = lead(make_core("ab"))
    for change in (
        MemberChange("b", voter=False),
        MemberChange("b", voter=True),
        MemberChange("q", voter=None),
    ):
        index = core.change_members(change)
        assert index == core.state.log.last_index, "an entry tells when all before it is committed"
        assert members(core) == {"a": True, "b": True}


def test_removed_member_is_told_and_does_not_stand() -> None:
    core = lead(make_core("abc"))
    index = core.change_members(MemberChange("c", voter=None)) or 0
    assert not any(isinstance(message, NotMember) for _, message in settle(core)), "not committed"
    assert ("c", NotMember(1, index)) in acknowledge(core, "b")
    core.step("c", PreVote(9, 99, 9), 2.2)
    assert core.state.outbox.pop() == ("c", NotMember(1, index))
    core.step("c", RequestVote(9, 99, 9), 2.2)
    assert core.state.term == 1
    removed = make_core("abc", name="c")
    removed.step("a", NotMember(1, index), 2.3)
    removed.tick(99.0)
    assert removed.state.role is Role.FOLLOWER
    assert removed.is_removed


def test_member_whose_removal_was_given_up_is_told_nothing() -> None:
    """The disk was full: the removal is given up, and another change comes in its place."""
    core = lead(make_core("abc"))
    core.change_members(MemberChange("c", voter=None))
    storage_of(core).cut_after(core.state.log.last_index - 1)
    core.tail_lost()
    assert members(core) == dict.fromkeys("abc", True)
    core.change_members(MemberChange("z", voter=False))
    settle(core)
    sent = acknowledge(core, "b", "c")
    assert not any(isinstance(message, NotMember) for _, message in sent)


def test_member_that_is_added_again_stands_again() -> None:
    core = make_core("abc")
    core.step("b", NotMember(1, 5), 0.1)
    core.step("b", Append(1, 1, 0, [LogEntry(1, b"\x01") for _ in range(8)], 2, 0), 0.2)
    core.step("b", Append(1, 9, 1, [entry(1, a=True, b=True)], 2, 0), 0.2)
    settle(core)
    core.tick(9.0)
    assert core.state.role is Role.PRE_CANDIDATE


def test_member_without_configuration_waits_and_follows_any_leader() -> None:
    core = make_core("")
    core.tick(99.0)
    assert core.state.role is Role.FOLLOWER
    assert not core.state.outbox
    core.step("z", Append(3, 1, 0, [entry(3, a=False, z=True)], 2, 0), 99.0)
    sent = settle(core)
    assert sent == [("z", AppendReply(3, True, 2, 0))]
    assert members(core) == {"a": False, "z": True}
    core.step("y", RequestVote(7, 9, 7), 199.0)
    assert core.state.outbox.pop() == ("y", VoteReply(7, True)), "for an unknown candidate"


def test_second_bootstrap_is_refused() -> None:
    core = make_core("")
    assert core.bootstrap()
    core.tick(0.1)
    settle(core)
    assert core.is_leader
    assert not core.bootstrap()
    assert make_core("", log=storage_of(core)).state.log.configuration.voters == {"a"}, (
        "its leader wrote it"
    )


def test_members_are_read_from_the_log_and_the_state_at_start() -> None:
    core = lead(make_core("ab"))
    core.change_members(MemberChange("z", voter=False))
    settle(core)
    acknowledge(core, "b")
    assert members(make_core("ab", log=storage_of(core))) == {"a": True, "b": True, "z": False}
    kept = ConfigurationEntry(9, Configuration.of("xy"))
    later = RaftCore(
        RaftConfig("a", kept, 9), storage_of(core), MemorySnapshots(), random.Random(1), 0.0
    )
    assert members(later) == {"x": True, "y": True}, "older entries count no more"


def blank(log: MemoryLog | None = None) -> RaftCore:
    """Whatever it was before, it has nothing but perhaps an admission."""
    return make_core("", log=log, logged=False, waits_for_admission=True)


HELLO = Append(3, 1, 0, [entry(1, a=True, b=True, c=True)], 2, 0)
"""A leader of term 3 for which the receiver is still the member that it was."""


def test_server_that_lost_its_disk_ignores_messages_until_it_is_admitted() -> None:
    core = blank()
    for message in (HELLO, RequestVote(4, 9, 3, True), PreVote(4, 9, 3), TimeoutNow(3)):
        core.step("b", message, 1.0)
        core.tick(9.0)
    assert settle(core) == []
    assert core.state.term == 0
    core.membership.admit(4, 6)
    core.step("b", HELLO, 10.0)
    assert settle(core) == [("b", AppendReply(4, False, 1, 0, 1, 0))], "a leader of an earlier term"
    core.step("c", msgspec.structs.replace(HELLO, term=4), 10.0)
    assert members(core) == {"a": True, "b": True, "c": True}


def test_admitted_server_neither_votes_nor_stands_before_it_has_the_admitting_entry() -> None:
    core = blank()
    core.membership.admit(3, 4)
    core.step("b", HELLO, 1.0)
    settle(core)
    for now_s in (5.0, 9.0):
        core.tick(now_s)
    core.step("c", RequestVote(7, 90, 6), 9.0)
    assert settle(core) == [("c", VoteReply(7, False))]
    again = blank(storage_of(core))
    assert not again.membership.waits_for_admission, "an admission is for good"
    again.step("c", RequestVote(8, 90, 6), 20.0)
    assert settle(again) == [("c", VoteReply(8, False))]
    again.step("b", Append(9, 2, 1, [LogEntry(8, b"\0"), LogEntry(8, b"\0")], 4, 0), 21.0)
    settle(again)
    again.step("c", RequestVote(10, 90, 9), 25.0)
    assert settle(again) == [("c", VoteReply(10, True))]


def test_server_whose_members_are_forced_needs_no_admission() -> None:
    core = blank()
    core.membership.admit(3, 40)
    assert not core.bootstrap(), "it is of a cluster"
    forced = make_core("a", log=storage_of(core), logged=False)
    forced.tick(1.0)
    assert forced.is_leader


def test_reply_from_before_the_removal_does_not_count() -> None:
    core = lead(make_core("abc"))
    late = AppendReply(core.state.term, True, core.state.log.last_index, 0)
    core.change_members(MemberChange("c", voter=None))
    settle(core)
    acknowledge(core, "b")
    core.change_members(MemberChange("c", voter=False))
    settle(core)
    core.step("c", late, 2.2)
    assert {one.address: one.match_index for one in core.peer_progress()}["c"] == 0
