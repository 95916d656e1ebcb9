"""Deliberate bugs, each of which the simulation has to find: faults of the library as it is
shipped, and mistakes that are easily made."""

from __future__ import annotations

import random

from orchgit.raft.configuration import Configuration
from orchgit.raft.core import RaftCore
from orchgit.raft.election import Role
from orchgit.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Message,
    SnapshotChunk,
    VoteReply,
)
from orchgit.raft.ports import Vote
from tests.support.raft_disk import MemoryLog


class TruncatesAtEveryAppend(RaftCore):
    """pysyncobj 0.3.17: whatever follows prevLogIdx is deleted, conflict or not."""

    def _take(self, prev_index: int, entries: list[Entry]) -> None:
        if prev_index < self.log.last_index:
            self.log.cut_after(prev_index)
        for entry in entries:
            self._append(entry.term, entry.payload)


class CountsRepliesOfOldTerms(RaftCore):
    """pysyncobj 0.3.17: replies have no term, so an old one counts for a new leadership."""

    def receive(self, sender: str, message: Message, now_s: float) -> None:
        if isinstance(message, AppendReply | VoteReply) and message.term < self.term:
            self._dispatch(sender, message)
            return
        super().receive(sender, message, now_s)


class ForgetsItsVote(RaftCore):
    """pysyncobj 0.3.17: a vote is heard of before it is on disk."""

    def _enter_term(self, term: int, voted_for: str | None = None) -> None:
        before = self.log.vote
        super()._enter_term(term, voted_for)
        if voted_for is not None and self._rng.random() < 0.5:
            self.log.vote = Vote(before.term, before.voted_for)


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


class CommitsOldTermsByCounting(RaftCore):
    """Section 5.4.2 of the Raft paper: an earlier term's entry on a majority may still be lost."""

    def _count(self) -> None:
        self._commit(self._reached_by_majority(self.log.synced_index, lambda one: one.match))


class ReadsWithoutAsking(RaftCore):
    """A leader that was cut off goes on answering reads."""

    def read(self, ticket: object) -> None:
        self.reads_done.append((ticket, self.commit_index if self.role is Role.LEADER else None))


class VotesForAnyLog(RaftCore):
    def _is_up_to_date(self, last_index: int, last_term: int) -> bool:
        return True


class CommitsWhatItWasNotSent(RaftCore):
    """A follower that takes the leader's commit index for its own, unverified log."""

    def _on_append(self, sender: str, message: Append) -> None:
        super()._on_append(sender, message)
        if message.term == self.term:
            self._commit(min(message.commit_index, self.log.last_index))


class ConfirmsWhatItTookBack(RaftCore):
    """A full disk: the reply to what could not be written is sent all the same."""

    def _without_tail(self, message: Message, last: int) -> Message:
        return message


class AppliesWhatItTookBack(RaftCore):
    """A full disk: what the leader said of entries that could not be written is believed."""

    def tail_lost(self) -> None:
        commit_index = self.commit_index
        super().tail_lost()
        self.commit_index = commit_index


class KeepsTheLeadWithoutRoom(RaftCore):
    """A leader whose disk stays full, although others could write."""

    def _leave_to_one_with_room(self) -> None:
        """It does not."""


class SnapshotTakesEntriesBack(RaftCore):
    """A snapshot that comes late replaces a log that had it all, and acknowledged more."""

    def _on_chunk(self, sender: str, message: SnapshotChunk) -> None:
        self._late = True
        super()._on_chunk(sender, message)
        self._late = False

    def _agrees(self, index: int, term: int) -> bool:
        return not getattr(self, "_late", False) and super()._agrees(index, term)


class CountsLearners(RaftCore):
    """A member without a vote helps to commit."""

    def _count(self) -> None:
        held = [peer.match for peer in self.progress.values()] + [self.log.synced_index]
        index = sorted(held, reverse=True)[len(self.configuration.voters) // 2]
        if index > self.commit_index and self.log.term(index) == self.term:
            self._commit(index)


class ChangesTwoAtOnce(RaftCore):
    """Majorities before and after two changes need not have a member in common."""

    def _refuse_two_at_once(self) -> None:
        """Whatever is not committed yet."""

    def _refuse_one_behind(self, address: str) -> None:
        if address != self.name:  # a leader may even have removed itself, and taken itself in again
            super()._refuse_one_behind(address)


class ChangesBeforeItsOwnEntry(RaftCore):
    """The fault of the dissertation's first printing: an earlier leader's change may come back."""

    def _refuse_two_at_once(self) -> None:
        if not self._is_settled:
            super()._refuse_two_at_once()


class BelongsWhenCommitted(RaftCore):
    """A configuration is in force when it is committed, instead of when it is in the log."""

    @property
    def configuration(self) -> Configuration:
        return self._configurations.oldest.configuration

    def _commit(self, index: int) -> None:
        super()._commit(index)
        self._members_changed()


class KeepsConfigurationsThatWereCut(RaftCore):
    def _cut_after(self, index: int) -> None:
        self.log.cut_after(index)


class HearsBeforeItIsAdmitted(RaftCore):
    """A member that lost its disk goes on as the member that it was."""

    def wait_for_admission(self) -> None:
        """It does not."""

    @property
    def is_catching_up(self) -> bool:
        return False
