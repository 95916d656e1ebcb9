"""The leader's side: sending entries, counting replies, reads, snapshots."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from orchgit.raft.commit_notification import Telling
from orchgit.raft.configuration import Placed
from orchgit.raft.election import Electing, Role, Timing
from orchgit.raft.entry_batches import Batches
from orchgit.raft.messages import (
    Append,
    AppendReply,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
)
from orchgit.raft.ports import NO_OP, Log, Snapshots
from orchgit.raft.progress import Progress, Streaming

_LARGE_BYTES = 1 << 20
_LARGE_BYTES_PER_S = 8 << 20
_BURST = 2
"""Messages to a follower at a time: reading entries for one far behind takes long, and the others
would hear nothing meanwhile. Its answers bring the next."""
_RESEND_S = 1.0


@dataclass(slots=True)
class Read:
    """A question whether this member still leads. Done: what is applied at `index` is current."""

    ticket: object
    round: int
    index: int


class Replicating(Electing):
    """A member as a leader."""

    def __init__(
        self,
        name: str,
        first: Placed,
        log: Log,
        snapshots: Snapshots,
        rng: random.Random,
        timing: Timing,
        applied_index: int,
        now_s: float,
    ) -> None:
        super().__init__(name, first, log, snapshots, rng, timing, applied_index, now_s)
        self.progress: dict[str, Progress] = {}
        self.no_op_index = 0
        self.reads_done: list[tuple[object, int | None]] = []
        """(ticket, index to have applied before reading; None: no longer the leader)."""
        self._reads: list[Read] = []
        self._batches = Batches(log)
        self._round = 0
        self._sent_round = 0
        self._heartbeat_s = 0.0
        self._look_s = 0.0
        """When to see next who is there, and who is to hear something."""
        self._telling = Telling()
        self._transfer: tuple[str, float] | None = None
        self._parted: dict[str, int] = {}
        """Members that are to be told of their removal, when its entry is committed."""
        self._gone_rounds: dict[str, int] = {}
        self.confirmed_s = -math.inf
        """As of when a majority has confirmed that this member leads: when that was sent which it
        answered, however late the answers are read. -inf: another may lead already."""
        self._beats: deque[tuple[int, float]] = deque()
        """(round, when it was begun), not answered by a majority yet."""

    # -- what the owner calls --------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    def propose(self, payload: bytes) -> int | None:
        """The index of the new entry; None if this member does not lead, or is handing over."""
        if not self.is_leader or self._transfer is not None:
            return None
        return self._append(self.term, payload)

    def read(self, ticket: object) -> None:
        """Ask for the index a current read must have seen; answered in `reads_done`."""
        if not self.is_leader:
            self.reads_done.append((ticket, None))
            return
        self._round += 1
        self._reads.append(Read(ticket, self._round, max(self.commit_index, self.no_op_index)))

    @property
    def awaits_commit(self) -> bool:
        """It leads, and a majority has not confirmed yet all that it has on disk."""
        return self.is_leader and self.commit_index < self.log.synced_index

    def count(self) -> None:
        """See what the answers that came have committed."""
        if self.awaits_commit:
            self._count()

    def durable(self) -> None:
        """After `log.sync()`: count it, and send what can be sent."""
        if not self.is_leader:
            return
        synced_index = self.log.synced_index
        self.count()
        asked = any(read.round > self._sent_round for read in self._reads)
        tells = self._telling.is_due(self._now_s)
        for name, peer in self.progress.items():
            # Most turns are taken for an answer, and bring nothing that could be sent.
            if asked or tells or not peer.was_sent(synced_index):
                self._replicate(name, force=asked, tells=tells)
        self._batches.forget()
        self._telling.sent(synced_index, self._now_s)
        self._telling.plan(self.progress.values(), self.commit_index, self._now_s)
        self._sent_round = self._round
        self._finish_reads()
        self._hand_over()
        if self.name not in self.configuration.voters and self._is_settled:
            self._retire()

    # -- leading ---------------------------------------------------------------------------------

    def _become_leader(self) -> None:
        self.role = Role.LEADER
        self.leader = self.name
        self._transfer = None
        self._look_s = 0.0
        self._sent_round = self._round
        self.progress = {}
        self._members_changed()
        # Entries of earlier terms are committed by the first of this one.
        self.no_op_index = self._append(self.term, NO_OP)
        self._heartbeat_s = self._now_s + self._timing.heartbeat_s
        self._begin_round()
        if not self._configurations.newest.logged:
            self._append(self.term, self.configuration.encode())

    def _members_changed(self) -> None:
        """Who is new is asked what it has; who is gone is sent nothing more."""
        if self.role is Role.LEADER:
            start = self.log.last_index + 1
            self._note_rounds_of_gone()
            self.progress = {
                name: self.progress.get(name)
                or Progress(start, self._now_s, self._gone_rounds.get(name, 0))
                for name in self.others
            }
            if self.confirmed_s == math.inf:
                self._confirm()

    def _note_rounds_of_gone(self) -> None:
        """One that is taken in again may have lost its disk: what it answered before is void."""
        for name in sorted(set(self.progress) - set(self.others)):
            self._round += 1
            self._gone_rounds[name] = self._round

    def _become_follower(self, leader: str | None) -> None:
        super()._become_follower(leader)
        self._transfer = None
        self._parted = {}
        self.progress = {}
        self._telling.forget()
        self._gone_rounds = {}
        self._beats.clear()
        self.confirmed_s = -math.inf
        self.reads_done.extend((read.ticket, None) for read in self._reads)
        self._reads.clear()

    def _lead(self) -> None:
        """Step down without a majority; else let followers hear from time to time."""
        oldest = self._now_s - self._timing.election_s[1]
        heard = [name for name, peer in self.progress.items() if peer.heard_s > oldest]
        if not self.configuration.is_majority((self.name, *heard)):
            self._become_follower(None)
            return
        if self._transfer is not None and self._now_s >= self._transfer[1]:
            self._transfer = None
        if self._now_s >= self._heartbeat_s:
            self._heartbeat_s = self._now_s + self._timing.heartbeat_s
            self._begin_round()
            heard_s = self._now_s - self._timing.heartbeat_s / 2
            for name in self.others:
                if self.progress[name].sent_s < heard_s:
                    self._replicate(name, force=True)
            self._batches.forget()

    def _begin_round(self) -> None:
        """What is sent from here on carries its number, and so do the answers."""
        self._round += 1
        self._beats.append((self._round, self._now_s))
        self._confirm()

    def _confirm(self) -> None:
        """Not while another member may be elected at once, as it is asked to stand."""
        if self._transfer is not None:
            return
        if self.configuration.voters == {self.name}:
            self.confirmed_s = math.inf
            self._beats.clear()
            return
        confirmed = self._reached_by_majority(self._round, lambda peer: peer.acked_round)
        if self.confirmed_s == math.inf:
            self.confirmed_s = -math.inf
        while self._beats and self._beats[0][0] <= confirmed:
            self.confirmed_s = self._beats.popleft()[1]

    @property
    def tell_s(self) -> float | None:
        """When followers are to be told what is committed, if no entries go to them until then."""
        return self._telling.at_s

    @property
    def lacks_only_needless_answers(self) -> bool:
        """All is committed, and a follower has not confirmed it yet: that changes nothing for who
        waits, and may be heard later."""
        last_index = self.log.last_index
        if not self.is_leader or self.commit_index < last_index or self._reads or self._transfer:
            return False
        peers = self.progress.values()
        return all(peer.was_sent(last_index) for peer in peers) and any(
            peer.match < last_index for peer in peers
        )

    def _replicate(self, name: str, force: bool = False, tells: bool = False) -> None:
        peer = self.progress[name]
        if peer.next - 1 < self.log.first_index and peer.next > 1 and peer.streaming is None:
            self._start_streaming(peer)
        if peer.streaming is not None:
            self._stream(name, peer, force)
        elif self._now_s < peer.large_until_s:
            if force:
                self._let_hear(name)
        elif peer.probing:
            if force or not peer.waiting:
                self._append_to(name, peer)
        else:
            sent = False
            for _ in range(_BURST):
                if peer.next > self.log.synced_index or not peer.has_room:
                    break
                self._append_to(name, peer)
                sent = True
            if not sent and (force or (tells and peer.sent_commit < self.commit_index)):
                self._append_to(name, peer, empty=True)

    def _append_to(self, name: str, peer: Progress, empty: bool = False) -> None:
        prev_index = peer.next - 1
        entries = [] if empty else self._batches.begin_at(peer.next)
        if not empty:
            size = sum(len(entry.payload) for entry in entries)
            peer.sent(prev_index + len(entries), size)
            if size > _LARGE_BYTES:
                peer.large_until_s = self._now_s + size / _LARGE_BYTES_PER_S
        peer.sent_commit = self.commit_index
        peer.sent_s = self._now_s
        prev_term = self._term_at(prev_index)
        place = (self.term, prev_index, prev_term)
        message = Append(*place, entries, self.commit_index, self._round, self.log_id)
        self._send(name, message)

    def _on_append_reply(self, sender: str, message: AppendReply) -> None:
        if not self.is_leader:
            return
        peer = self.progress[sender]
        if message.round < peer.since_round:
            return
        peer.heard_s = self._now_s
        peer.could_write = message.has_room
        peer.acked_round = max(peer.acked_round, message.round)
        if self._beats and peer.acked_round >= self._beats[0][0]:
            self._confirm()
        if message.accepted:
            self._accepted(peer, message.index)
        elif peer.refused(message.refused, self._agreeing_with(peer, message)):
            self._replicate(sender)
            self._batches.forget()
        peer.ran(self.log.last_index, self._now_s)

    def _accepted(self, peer: Progress, index: int) -> None:
        if peer.streaming is None:
            peer.accepted(index)
        elif index >= peer.streaming.ref.index:
            peer.streaming = None
            peer.accepted(index)

    def _agreeing_with(self, peer: Progress, message: AppendReply) -> int:
        index = min(message.index, self.log.last_index)
        while index > peer.match and index >= self.log.first_index:
            if self.log.term(index) <= message.hint_term:
                break
            index -= 1
        return index

    # -- counting --------------------------------------------------------------------------------

    def _reached_by_majority(self, own: int, of: Callable[[Progress], int]) -> int:
        """The most that a majority of those with a vote has reached."""
        reached = sorted(
            own if name == self.name else of(self.progress[name])
            for name in self.configuration.voters
        )
        return reached[(len(reached) - 1) // 2]

    def _count(self) -> None:
        """An entry of this term that a majority has on disk is committed, with all before it."""
        index = self._reached_by_majority(self.log.synced_index, lambda peer: peer.match)
        if index > self.commit_index and self.log.term(index) == self.term:
            self._commit(index)

    def _finish_reads(self) -> None:
        if not self._reads or self.commit_index < self.no_op_index:
            return
        confirmed = self._reached_by_majority(self._round, lambda peer: peer.acked_round)
        self.reads_done.extend(
            (read.ticket, read.index) for read in self._reads if read.round <= confirmed
        )
        self._reads = [read for read in self._reads if read.round > confirmed]

    def _hand_over(self) -> None:
        if self._transfer is None:
            return
        target, _ = self._transfer
        if self.progress[target].match == self.log.last_index:
            self.confirmed_s = -math.inf
            self._send(target, TimeoutNow(self.term, self.log_id))

    def _retire(self) -> None:
        """Its own removal is committed: whoever has most may stand at once."""
        heir = max(sorted(self.configuration.voters), key=lambda name: self.progress[name].match)
        self._send(heir, TimeoutNow(self.term, self.log_id))
        self._become_follower(None)

    # -- snapshots -------------------------------------------------------------------------------

    def _start_streaming(self, peer: Progress) -> None:
        ref = self.snapshots.latest()
        if ref is not None:
            peer.probe()
            peer.streaming = Streaming(ref)

    def _stream(self, name: str, peer: Progress, force: bool) -> None:
        streaming = peer.streaming
        assert streaming is not None
        if streaming.sent_s is None or self._now_s - streaming.sent_s >= _RESEND_S:
            data = self.snapshots.read(streaming.ref, streaming.offset)
            if data is None:
                peer.streaming = None
                return
            streaming.sent_s = self._now_s
            ref = streaming.ref
            place = (self.term, ref.index, ref.term, ref.size, streaming.offset)
            self._send(name, SnapshotChunk(*place, data, self.log_id))
        elif force:
            self._let_hear(name)

    def _let_hear(self, name: str) -> None:
        """That there is a leader, and no more: it agrees with any log, and passes large ones."""
        self._send(name, Append(self.term, 0, 0, [], 0, self._round, self.log_id))

    def _on_snapshot_reply(self, sender: str, message: SnapshotReply) -> None:
        if not self.is_leader:
            return
        peer = self.progress[sender]
        peer.heard_s = self._now_s
        streaming = peer.streaming
        if streaming is None or streaming.ref.index != message.index:
            return
        if message.installed:
            peer.streaming = None
            peer.accepted(message.index)
            peer.probing = True
        elif message.offset != streaming.offset:
            streaming.offset = message.offset
            streaming.sent_s = None
