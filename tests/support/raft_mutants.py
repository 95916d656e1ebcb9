"""Deliberate bugs, each of which the simulation has to find: faults of the library as it is
shipped, and mistakes that are easily made."""

from __future__ import annotations

import random

from orchgit.raft.conf_change import ConfChange
from orchgit.raft.configuration import Configuration
from orchgit.raft.core import Parts, RaftCore
from orchgit.raft.election import Election
from orchgit.raft.follower import FollowerLog
from orchgit.raft.leader import LeaderParts
from orchgit.raft.leadership_transfer import LeadershipTransfer
from orchgit.raft.log import RaftLog
from orchgit.raft.membership import RaftMembership
from orchgit.raft.messages import (
    Append,
    AppendReply,
    LogEntry,
    Message,
    PreVote,
    RequestVote,
    VoteReply,
)
from orchgit.raft.ports import SnapshotRef, Vote
from orchgit.raft.replication import Replication
from orchgit.raft.snapshot_transfer import SnapshotReceiver
from orchgit.raft.state import RaftState
from tests.support.raft_disk import MemoryLog


class _TruncatingFollower(FollowerLog):
    def _append_missing(self, prev_index: int, entries: list[LogEntry]) -> None:
        if prev_index < self._log.last_index:
            self._log.storage.cut_after(prev_index)
        for entry in entries:
            self._log.append(entry.term, entry.payload)


class TruncatesAtEveryAppend(RaftCore):
    """pysyncobj 0.3.17: whatever follows prevLogIdx is deleted, conflict or not."""

    parts = Parts(follower=_TruncatingFollower)


class CountsRepliesOfOldTerms(RaftCore):
    """pysyncobj 0.3.17: replies have no term, so an old one counts for a new leadership."""

    def step(self, sender: str, message: Message, now_s: float) -> None:
        if isinstance(message, AppendReply | VoteReply) and message.term < self.state.term:
            _, handle = self._routes[type(message)]
            handle(sender, message)
            return
        super().step(sender, message, now_s)


class _ForgettingElection(Election):
    def enter_term(self, term: int, voted_for: str | None = None) -> None:
        storage = self._log.storage
        assert isinstance(storage, MemoryLog)
        before = storage.vote
        super().enter_term(term, voted_for)
        if voted_for is not None and self._state.rng.random() < 0.5:
            storage.vote = Vote(before.term, before.voted_for)


class ForgetsItsVote(RaftCore):
    """pysyncobj 0.3.17: a vote is heard of before it is on disk."""

    parts = Parts(election=_ForgettingElection)


class ForgetfulLog(MemoryLog):
    """pysyncobj 0.3.17: a journal without fsync. Only now and then is it really on disk."""

    def __init__(self) -> None:
        super().__init__()
        self._really = 0
        self._syncs = 0

    def sync(self) -> None:
        super().sync()
        self._syncs += 1
        if self._syncs % 20 == 0:
            self._really = self.synced_index

    def crash(self, rng: random.Random) -> None:
        self.synced_index = max(min(self._really, self.last_index), self.first_index)
        super().crash(rng)


class _CountingAnyTerm(Replication):
    def count(self) -> bool:
        tracker, log = self._tracker, self._log
        log.commit(tracker.reached_by_majority(log.synced_index, lambda one: one.match))
        return True


class CommitsOldTermsByCounting(RaftCore):
    """Section 5.4.2 of the Raft paper: an earlier term's entry on a majority may still be lost."""

    parts = Parts(leader=LeaderParts(replication=_CountingAnyTerm))


class ReadsWithoutAsking(RaftCore):
    """A leader that was cut off goes on answering reads."""

    def read(self, ticket: object) -> None:
        index = self.state.log.commit_index if self.is_leader else None
        self.state.reads.append((ticket, index))


class _VotingForAnyLog(Election):
    def _is_up_to_date(self, message: PreVote | RequestVote) -> bool:
        return True


class VotesForAnyLog(RaftCore):
    """A candidate need not have what was committed."""

    parts = Parts(election=_VotingForAnyLog)


class _CommittingFollower(FollowerLog):
    def on_append(self, sender: str, message: Append) -> None:
        super().on_append(sender, message)
        if message.term == self._state.term:
            self._log.commit(min(message.commit_index, self._log.last_index))


class CommitsWhatItWasNotSent(RaftCore):
    """A follower that takes the leader's commit index for its own, unverified log."""

    parts = Parts(follower=_CommittingFollower)


class ConfirmsWhatItTookBack(RaftCore):
    """A full disk: the reply to what could not be written is sent all the same."""

    def _without_tail(self, message: Message) -> Message:
        return message


class AppliesWhatItTookBack(RaftCore):
    """A full disk: what the leader said of entries that could not be written is believed."""

    def tail_lost(self) -> None:
        commit_index = self.state.log.commit_index
        super().tail_lost()
        self.state.log.commit_index = commit_index


class _StayingLeader(LeadershipTransfer):
    def leave_if_full(self) -> None:
        """It does not."""


class KeepsTheLeadWithoutRoom(RaftCore):
    """A leader whose disk stays full, although others could write."""

    parts = Parts(leader=LeaderParts(transfer=_StayingLeader))


class _ReplacingReceiver(SnapshotReceiver):
    def _is_in_log(self, ref: SnapshotRef) -> bool:
        return False


class SnapshotTakesEntriesBack(RaftCore):
    """A snapshot that comes late replaces a log that had it all, and acknowledged more."""

    parts = Parts(snapshots=_ReplacingReceiver)


class _CountingLearners(Replication):
    def count(self) -> bool:
        log = self._log
        held = [peer.match for peer in self._tracker.peers.values()] + [log.synced_index]
        index = sorted(held, reverse=True)[len(log.configuration.voters) // 2]
        if index <= log.commit_index or log.term(index) != self._state.term:
            return False
        log.commit(index)
        return True


class CountsLearners(RaftCore):
    """A member without a vote helps to commit."""

    parts = Parts(leader=LeaderParts(replication=_CountingLearners))


class _UncheckedChange(ConfChange):
    def _check_previous_is_committed(self) -> None:
        """Whatever is not committed yet."""

    def _check_keeps_up(self, address: str) -> None:
        if address != self._state.name:  # a leader may even have removed and added itself
            super()._check_keeps_up(address)


class ChangesTwoAtOnce(RaftCore):
    """Majorities before and after two changes need not have a member in common."""

    parts = Parts(leader=LeaderParts(conf_change=_UncheckedChange))


class _EarlyChange(ConfChange):
    def _check_previous_is_committed(self) -> None:
        if not self._log.is_configuration_committed:
            super()._check_previous_is_committed()


class ChangesBeforeItsOwnEntry(RaftCore):
    """The fault of the dissertation's first printing: an earlier leader's change may come back."""

    parts = Parts(leader=LeaderParts(conf_change=_EarlyChange))


class _LateConfiguration(RaftLog):
    @property
    def configuration(self) -> Configuration:
        return self.configurations.oldest.configuration

    def commit(self, index: int) -> None:
        if index > self.commit_index:
            super().commit(index)
            self.on_configuration()


class AppliesConfigurationsWhenCommitted(RaftCore):
    """A configuration is in force when it is committed, instead of when it is in the log."""

    parts = Parts(log=_LateConfiguration)


class _LogThatKeepsConfigurations(RaftLog):
    def cut_after(self, index: int) -> None:
        self.storage.cut_after(index)


class KeepsConfigurationsThatWereCut(RaftCore):
    """A configuration stays in force when its entry is cut off."""

    parts = Parts(log=_LogThatKeepsConfigurations)


class _MembershipWithoutAdmission(RaftMembership):
    def __init__(self, state: RaftState, waits_for_admission: bool) -> None:
        super().__init__(state, waits_for_admission=False)

    @property
    def is_catching_up(self) -> bool:
        return False


class ActsBeforeItIsAdmitted(RaftCore):
    """A member that lost its disk goes on as the member that it was."""

    parts = Parts(membership=_MembershipWithoutAdmission)


class TakesItsStandstillForSilence(RaftCore):
    """A leader that was paused steps down, although all others were paused with it."""

    def stood_still(self, length_s: float, now_s: float) -> None:
        """Forgets it."""
