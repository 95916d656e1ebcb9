"""Raft's rules and nothing else: inputs come with the time, outputs are messages and indexes.

No thread, socket, clock or file: the log, the snapshots, the random source and the time are given,
so whole clusters run in a simulation (`tests/support/raft_simulation.py`) on the code that runs in
production. The owner keeps one promise: what is in `outbox` is sent only after `log.sync()`.

`raft_belonging.py` knows the members, `raft_election.py` has terms and votes,
`raft_replicating.py`, `raft_handing_over.py` and `raft_changing.py` the leader's side, this file
the follower's side and what the owner calls.
"""

from __future__ import annotations

from orchgit.errors import InvariantError
from orchgit.raft.conf_change import Changing
from orchgit.raft.election import NO_OP, Role
from orchgit.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Message,
    NotMember,
    OtherLog,
    PreVote,
    PreVoteReply,
    RequestVote,
    Ruling,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
)
from orchgit.raft.ports import SnapshotRef

__all__ = ["RaftCore"]


class RaftCore(Changing):
    """One member. `outbox`: (receiver, message) to send; `commit_index`: what may be applied;
    `reads_done`: reads confirmed; `installed`: the snapshot that took the log's place."""

    @property
    def is_removed(self) -> bool:
        """It was a member and is none any more, and no leader sends it anything."""
        return self.is_left_out and not self._has_leader()

    def tick(self, now_s: float) -> None:
        """Elections, heartbeats, and stepping down, as the time asks for."""
        self._now_s = max(now_s, self._now_s)
        if self.role is Role.LEADER:
            if self._now_s >= self._look_s:
                self._look_s = self._now_s + self._timing.heartbeat_s / 10
                self._lead()
        elif self._now_s >= self._election_s and self._may_stand:
            self._stand()

    def receive(self, sender: str, message: Message, now_s: float) -> None:
        """From any server of the cluster: a leader, and who stands for election, may be members
        of a configuration that this member does not have yet."""
        self._now_s = max(now_s, self._now_s)
        if self._is_deaf:
            return
        if isinstance(message, OtherLog):
            self._meet(sender, message.log_id)
        elif isinstance(message, Ruling) and self._is_foreign(message.log_id):
            self._refuse_foreign(sender, message.log_id)
        elif isinstance(message, PreVote | RequestVote) and self._is_stranger(sender):
            self._send(sender, NotMember(self.term, self._configurations.newest.index))
        elif isinstance(message, PreVote):
            self._on_pre_vote(sender, message)
        elif isinstance(message, RequestVote):
            self._on_request_vote(sender, message)
        elif isinstance(message, NotMember):
            self._on_not_member(message)
        elif isinstance(message, Append | SnapshotChunk | TimeoutNow):
            self._receive_from_leader(sender, message)
        elif sender in self.configuration.addresses:
            self._receive_from_member(sender, message)

    def _refuse_foreign(self, sender: str, log_id: str) -> None:
        if self.log_id:
            self._meet(sender, log_id)
            self._send(sender, OtherLog(self.term, self.log_id))

    def _meet(self, sender: str, log_id: str) -> None:
        """Only people can tell which of the two clusters that server should be in."""
        if log_id not in ("", self.log_id):
            self.strangers[sender] = log_id

    def _is_stranger(self, sender: str) -> bool:
        """A leader knows for certain that it was removed."""
        return self.is_leader and self._is_settled and sender not in self.configuration.addresses

    def _receive_from_leader(
        self, sender: str, message: Append | SnapshotChunk | TimeoutNow
    ) -> None:
        if message.term > self.term:
            self._enter_term(message.term)
        if isinstance(message, Append):
            self._on_append(sender, message)
        elif isinstance(message, SnapshotChunk):
            self._on_chunk(sender, message)
        elif message.term == self.term and sender == self.leader and self._may_stand:
            self._campaign(transfer=True)

    def _receive_from_member(self, sender: str, message: Message) -> None:
        if isinstance(message, PreVoteReply):
            self._on_pre_vote_reply(sender, message)
        elif message.term > self.term:
            self._enter_term(message.term)
        elif message.term == self.term:
            self._dispatch(sender, message)

    def _dispatch(self, sender: str, message: Message) -> None:
        if isinstance(message, VoteReply):
            self._on_vote_reply(sender, message)
        elif isinstance(message, AppendReply):
            self._on_append_reply(sender, message)
        elif isinstance(message, SnapshotReply):
            self._on_snapshot_reply(sender, message)

    def tail_lost(self) -> None:
        """The disk was full: the log ends with what was synced. Nobody has heard of the rest, and
        what was to be sent because of it must not be."""
        last = self.log.last_index
        self.commit_index = min(self.commit_index, last)
        if self._configurations.cut_after(last):
            self._members_changed()
        self.outbox = [
            (receiver, self._without_tail(message, last))
            for receiver, message in self.outbox
            if not isinstance(message, PreVote | RequestVote)
        ]
        if self.role is Role.LEADER and self.no_op_index <= last:
            return
        if self.role is not Role.FOLLOWER:
            self._become_follower(None)

    def _without_tail(self, message: Message, last: int) -> Message:
        """Where entries were to be confirmed, the leader is told what this member really has. A
        snapshot for which the log seemed to be long enough is asked for again."""
        if isinstance(message, SnapshotReply) and message.installed and message.index > last:
            return SnapshotReply(self.term, message.index, 0, False)
        if not isinstance(message, AppendReply) or not message.accepted or message.index <= last:
            return message
        hint_term = self._term_at(last)
        return AppendReply(self.term, False, last, message.round, message.index, hint_term, False)

    # -- a follower ------------------------------------------------------------------------------

    def _on_append(self, sender: str, message: Append) -> None:
        if message.term < self.term:
            self._refuse(sender, message, self.log.last_index)
            return
        self._follow(sender)
        prev_index, entries = message.prev_index, message.entries
        if prev_index < self.commit_index:
            # What is committed is the same in every leader's log: no need to compare (or to have).
            entries = entries[self.commit_index - prev_index :]
            prev_index = max(self.commit_index, prev_index)
        elif not self._agrees(prev_index, message.prev_term):
            self._refuse(sender, message, self._agreeing(prev_index))
            return
        self._take(prev_index, entries)
        last = max(prev_index, message.prev_index + len(message.entries))
        self._commit(min(message.commit_index, last))
        reply = AppendReply(self.term, True, last, message.round, has_room=self.has_room)
        self._send(sender, reply)

    def _agrees(self, index: int, term: int) -> bool:
        return index <= self.log.last_index and self._term_at(index) == term

    def _take(self, prev_index: int, entries: list[Entry]) -> None:
        """Append what is missing. Entries are cut only from the first that conflicts: a message
        that was overtaken by a later one must not take back what that one brought."""
        last_index = self.log.last_index
        for index, entry in enumerate(entries, prev_index + 1):
            if index <= last_index:
                if self.log.term(index) == entry.term:
                    continue
                self._cut_after(index - 1)
                last_index = index - 1
            self._append(entry.term, entry.payload)

    def _cut_after(self, index: int) -> None:
        if index < self.commit_index:
            raise InvariantError(
                f"cannot follow {self.leader}: it conflicts with entry {index + 1}, but "
                f"{self.commit_index} is committed; stop this server and compare the members' logs"
            )
        super()._cut_after(index)

    def _refuse(self, sender: str, message: Append, hint: int) -> None:
        reply = AppendReply(
            *(self.term, False, hint, message.round),
            *(message.prev_index, self._term_at(hint), self.has_room),
        )
        self._send(sender, reply)

    def _agreeing(self, index: int) -> int:
        """The last place before `index` that can be the same as the leader's: none of the entries
        of the conflicting term are worth asking about one by one."""
        if index > self.log.last_index:
            return self.log.last_index
        term = self.log.term(index)
        while index > self.commit_index and self.log.term(index) == term:
            index -= 1
        return index

    def _on_chunk(self, sender: str, message: SnapshotChunk) -> None:
        if message.term < self.term:
            self._send(sender, SnapshotReply(self.term, message.index, 0, False))
            return
        self._follow(sender)
        ref = SnapshotRef(message.index, message.index_term, message.size)
        wanted = 0
        if self._agrees(ref.index, ref.term):
            # The log is the leader's up to there: dropping it for the snapshot would take back
            # what was acknowledged behind it.
            self._commit(ref.index)
        installed = ref.index <= self.commit_index
        if not installed:
            wanted = self.snapshots.receive(ref, message.offset, message.data)
            if wanted == ref.size:
                self._install(ref)
                installed = True
        self._send(sender, SnapshotReply(self.term, ref.index, wanted, installed))

    def _install(self, ref: SnapshotRef) -> None:
        """The log goes on behind the snapshot; its first record stands for the snapshot's entry."""
        members = self.snapshots.install(ref)
        self.log.reset(ref.index)
        self.log.append(ref.term, NO_OP)
        self.log.sync()
        self.commit_index = ref.index
        self._belong_as_of(members)
        self.installed = ref
