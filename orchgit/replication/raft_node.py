"""One member: the core, its journal, its transport, and the commands that wait to be applied.

A turn takes in what has come, syncs the journal once for all of it, and only then lets messages go
and entries be counted. Waiting for work is pysyncobj's poller.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from pysyncobj.poller import POLL_EVENT_TYPE, createPoller

from orchgit.errors import DiskFullError, OrchgitError
from orchgit.replication.applier import Committed
from orchgit.replication.disk_space import JOURNAL, RETRY_S, DiskSpace
from orchgit.replication.journal import Journal
from orchgit.replication.membership import (
    CONFIGURATION,
    Change,
    Member,
    PeerProgress,
    Placed,
    decode_configuration,
)
from orchgit.replication.proposal import Proposal, not_leader, queue_full, unknown_outcome
from orchgit.replication.raft_core import RaftCore
from orchgit.replication.raft_election import Timing
from orchgit.replication.raft_inbox import Inbox
from orchgit.replication.raft_messages import Forwarded, ForwardRefused, Message
from orchgit.replication.raft_ports import NO_OP, Snapshots
from orchgit.replication.raft_progress import SnapshotRef
from orchgit.replication.segment import Record
from orchgit.replication.transport import Transport

_REGULAR = b"\x00"
_FORWARDED = b"\x04"
"""Followed by the msgpack of [member, request], whose length is in the next two bytes."""
_HAND_OVER = 256
_QUEUE = 65536


@dataclass(slots=True)
class _Submission:
    command: bytes
    proposal: Proposal
    forward: bool


class RaftNode:
    """All but `submit`, `read`, `transfer`, `receive` and `wake` belongs to the raft thread."""

    def __init__(
        self,
        name: str,
        first: Placed,
        journal: Journal,
        snapshots: Snapshots,
        transport: Transport,
        applied_index: int,
        hand_over: Callable[[Sequence[Committed]], None],
        has_room: Callable[[], bool],
        on_role: Callable[[bool], None],
        on_installed: Callable[[SnapshotRef], None],
        timing: Timing | None = None,
        now_s: Callable[[], float] = time.monotonic,
        space: DiskSpace | None = None,
    ) -> None:
        self._space = space or DiskSpace()
        self._look_for_room_s = 0.0
        self._journal = journal
        self._transport = transport
        self._hand_over = hand_over
        self._has_room = has_room
        self._on_role = on_role
        self._on_installed = on_installed
        self._now_s = now_s
        self._timing = timing or Timing()
        self.core = RaftCore(
            *(name, first, journal, snapshots, random.SystemRandom()),
            *(self._timing, applied_index, now_s()),
        )
        self._last_log_index = journal.last_index
        self._handed_index = applied_index
        self._led = False
        self._led_term: int | None = None
        self._leader: tuple[str | None, int] = (None, 0)
        self.on_leader: Callable[[], None] = lambda: None
        """Called on the raft thread when another member, or none, is the leader."""
        self._peers: tuple[str, ...] = ()
        self._inbox = Inbox()
        self._calls: deque[Callable[[], None]] = deque()
        self._submitted: deque[_Submission] = deque()
        self._waiting: dict[int, tuple[int, Proposal]] = {}
        """By index: (term, proposal) of commands appended here."""
        self._doubtful_s: float | None = None
        """When those that wait are given up, because this member leads no more."""
        self._forwarded: dict[int, Proposal] = {}
        self._requests = int.from_bytes(os.urandom(6), "little")
        """Starts at random: a request of an earlier life must not answer one of this."""
        self._is_woken = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller = createPoller("auto")
        self._poller.subscribe(self._wake_fd, self._woken, POLL_EVENT_TYPE.READ)

    # -- what other threads may call -------------------------------------------------------------

    def submit(self, command: bytes, proposal: Proposal, forward: bool = False) -> None:
        """Queue a command; the proposal is answered after it was applied, or failed. `forward`:
        a follower sends it to the leader."""
        if len(self._submitted) >= _QUEUE:
            proposal.fail(queue_full())
            return
        self._submitted.append(_Submission(command, proposal, forward))
        self.wake()

    def read(self, done: Callable[[int | None], None]) -> None:
        """Call `done` with the index to have applied before a current read; None if this member
        does not lead (any more). On the raft thread."""
        self._calls.append(lambda: self.core.read(done))
        self.wake()

    def transfer(self, target: str, answer: Callable[[bool], None]) -> None:
        """Hand the leadership to another member; `answer` on the raft thread: was it begun?"""
        self._calls.append(lambda: answer(self.core.transfer(target)))
        self.wake()

    def change_members(self, change: Change, proposal: Proposal) -> None:
        """Answered when the change is committed and known to the state here."""
        self._calls.append(lambda: self._change_members(change, proposal))
        self.wake()

    def bootstrap(self, answer: Callable[[bool], None]) -> None:
        """Form a cluster of this member alone; `answer` on the raft thread: did it have none?"""
        self._calls.append(lambda: answer(self.core.bootstrap()))
        self.wake()

    def receive(self, sender: str, message: Message) -> None:
        """From the transport."""
        taken = self._inbox.put(sender, message)
        if not taken and isinstance(message, Forwarded):
            refusal = ForwardRefused(self.core.term, message.request, too_much=True)
            self._transport.send(sender, refusal)
        self.wake()

    def wake(self) -> None:
        """Let the raft thread take a turn now."""
        if not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)

    @property
    def is_raft_leader(self) -> bool:
        return self._led

    @property
    def leader_address(self) -> str | None:
        return self._leader[0]

    @property
    def leader_and_term(self) -> tuple[str | None, int]:
        """Who leads, in which term; the two belong together."""
        return self._leader

    @property
    def term(self) -> int:
        return self.core.term

    @property
    def is_alone(self) -> bool:
        """There is nobody whose silence has to be noticed."""
        return not self.core.others

    @property
    def members(self) -> tuple[Member, ...]:
        """The newest that are known here; none: it belongs to no cluster."""
        return self.core.configuration.members

    @property
    def is_removed(self) -> bool:
        return self.core.is_removed

    @property
    def last_log_index(self) -> int:
        return self._last_log_index

    @property
    def last_contact_s(self) -> float | None:
        """Since this member heard of a leader; 0 while it leads."""
        if self._led:
            return 0.0
        heard_s = self.core.heard_leader_s
        return None if heard_s is None else max(0.0, self._now_s() - heard_s)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        return self.core.peer_progress()

    # -- the raft thread -------------------------------------------------------------------------

    def turn(self) -> None:
        """Everything that can be done now."""
        while True:
            self._look_for_room()
            self._take_in()
            self._tick()
            self._sync()
            self.core.durable()
            self._tell_role()
            self._tell_peers()
            self._give_up_doubtful()
            self._release()
            self._hand_over_committed()
            self._last_log_index = self._journal.last_index
            if not (self._inbox or self._submitted or self._calls):
                return

    def _look_for_room(self) -> None:
        """From time to time while the log waits for it: then writing goes on."""
        if self._space.is_lacked_by(JOURNAL) and self._now_s() >= self._look_for_room_s:
            self._look_for_room_s = self._now_s() + RETRY_S
            if self._journal.has_room():
                self._space.suffices(JOURNAL)
        self.core.has_room = not self._space.is_lacked_by(JOURNAL)

    def _tick(self) -> None:
        try:
            self.core.tick(self._now_s())
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)

    def _receive(self, sender: str, message: Message) -> None:
        """What cannot be done for want of room, as keeping a vote, is not answered."""
        try:
            self.core.receive(sender, message, self._now_s())
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)

    def _sync(self) -> None:
        """A full disk is no failure: what was appended is given up, before anybody heard of it."""
        try:
            self._journal.sync()
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)
            self._give_up(self._journal.take_back(), error)

    def _give_up(self, records: Sequence[Record], error: DiskFullError) -> None:
        led = self.core.is_leader
        self.core.tail_lost()
        for record in records:
            _, proposal = self._waiting.pop(record.index, (0, None))
            if proposal is not None:
                proposal.fail(DiskFullError(str(error)))
            elif led and record.payload[:1] == _FORWARDED:
                (name, request), _ = _origin(record.payload)
                self._refuse(name, request, str(error))

    def _take_in(self) -> None:
        for sender, message in self._inbox.take():
            if isinstance(message, Forwarded):
                self._on_forwarded(sender, message)
            elif isinstance(message, ForwardRefused):
                self._fail_forwarded(message)
            else:
                self._receive(sender, message)
        for _ in range(len(self._calls)):
            self._calls.popleft()()
        for _ in range(len(self._submitted)):
            self._append(self._submitted.popleft())

    def _append(self, submission: _Submission) -> None:
        if self.core.is_leader and (refusal := self._space.refusal) is not None:
            submission.proposal.fail(refusal)
            return
        index = self.core.propose(_REGULAR + submission.command)
        if index is not None:
            self._wait(index, submission.proposal)
        elif submission.forward and self.core.leader not in (None, self.core.name):
            self._forward(submission)
        else:
            submission.proposal.fail(not_leader(self.core.leader))

    def _change_members(self, change: Change, proposal: Proposal) -> None:
        if self.core.is_leader and (refusal := self._space.refusal) is not None:
            proposal.fail(refusal)
            return
        try:
            index = self.core.change_members(change)
        except OrchgitError as error:
            proposal.fail(error)
            return
        if index is not None:
            self._wait(index, proposal)
        else:
            proposal.fail(not_leader(self.core.leader))

    def _wait(self, index: int, proposal: Proposal) -> None:
        """An older waiter of the same index had its entry cut off by another leader's."""
        older = self._waiting.pop(index, None)
        if older is not None:
            older[1].fail(unknown_outcome())
        self._waiting[index] = self.core.term, proposal

    def _release(self) -> None:
        outbox, self.core.outbox = self.core.outbox, []
        for receiver, message in outbox:
            self._transport.send(receiver, message)
        reads, self.core.reads_done = self.core.reads_done, []
        for done, index in reads:
            done(index)  # type: ignore[operator]

    def _tell_role(self) -> None:
        led, self._led_term = self._led_term, self.core.term if self.core.is_leader else None
        self._led = self._led_term is not None
        if led is not None and led != self._led_term:
            self._on_role(False)
            # What the next leader has of them is applied here soon; the rest will never be.
            self._doubtful_s = self._now_s() + self._timing.election_s[1]
        if self._led and led != self._led_term:
            self._on_role(True)
        leader = self.core.leader, self.core.term
        if leader != self._leader:
            self._leader = leader
            for request in list(self._forwarded):
                self._forwarded.pop(request).fail(unknown_outcome())
            self.on_leader()

    def _tell_peers(self) -> None:
        """The transport keeps connections to the members of the newest configuration."""
        if self.core.others != self._peers:
            self._peers = self.core.others
            self._transport.set_peers(self._peers)

    def _give_up_doubtful(self) -> None:
        if self._doubtful_s is not None and self._now_s() >= self._doubtful_s:
            self._doubtful_s = None
            doubtful = [i for i, (term, _) in self._waiting.items() if term != self._led_term]
            for index in doubtful:
                self._waiting.pop(index)[1].fail(unknown_outcome())

    # -- commands of followers -------------------------------------------------------------------

    def _forward(self, submission: _Submission) -> None:
        leader = self.core.leader
        assert leader is not None
        self._requests += 1
        origin = msgspec.msgpack.encode((self.core.name, self._requests))
        payload = _FORWARDED + len(origin).to_bytes(2, "big") + origin + submission.command
        if self._transport.send(leader, Forwarded(self.core.term, self._requests, payload)):
            self._forwarded[self._requests] = submission.proposal
        else:
            submission.proposal.fail(not_leader(leader))

    def _on_forwarded(self, sender: str, message: Forwarded) -> None:
        is_member = sender in self.core.configuration.addresses
        well_formed = _is_forwarded(message.payload)
        refusal = self._space.refusal if self.core.is_leader else None
        taken = is_member and well_formed and refusal is None
        if not taken or self.core.propose(message.payload) is None:
            self._refuse(sender, message.request, str(refusal or ""))

    def _refuse(self, sender: str, request: int, reason: str) -> None:
        self._transport.send(sender, ForwardRefused(self.core.term, request, reason=reason))

    def _fail_forwarded(self, refusal: ForwardRefused) -> None:
        proposal = self._forwarded.pop(refusal.request, None)
        if proposal is None:
            return
        if refusal.reason:
            proposal.fail(DiskFullError(refusal.reason))
        else:
            proposal.fail(queue_full() if refusal.too_much else not_leader(None))

    # -- what is committed -----------------------------------------------------------------------

    def _hand_over_committed(self) -> None:
        """To the applier thread, as far as it has room."""
        if self.core.installed is not None:
            ref, self.core.installed = self.core.installed, None
            self._handed_index = ref.index
            self._fail_waiting(ref.index)
            self._on_installed(ref)
        batch: list[Committed] = []
        while self._handed_index < self.core.commit_index and self._has_room():
            self._handed_index += 1
            batch.append(self._committed(self._handed_index))
            if len(batch) == _HAND_OVER:
                self._hand_over(batch)
                batch = []
        if batch:
            self._hand_over(batch)

    def _fail_waiting(self, upto_index: int) -> None:
        for index in [one for one in self._waiting if one <= upto_index]:
            self._waiting.pop(index)[1].fail(unknown_outcome())

    def _committed(self, index: int) -> Committed:
        record = self._journal.record(index)
        proposals = []
        term, proposal = self._waiting.pop(index, (0, None))
        if proposal is not None and term == record.term:
            proposals.append(proposal)
        elif proposal is not None:
            proposal.fail(unknown_outcome())
        members = None
        if record.payload[:1] == CONFIGURATION:
            members = decode_configuration(record.payload).members
        command, forwarded = self._command(record.payload)
        if forwarded is not None:
            proposals.append(forwarded)
        elects = index == self.core.no_op_index and self._led and record.term == self.core.term
        return Committed(index, command, proposals, members, elects)

    def _command(self, payload: bytes) -> tuple[bytes | None, Proposal | None]:
        """What is to be applied, and who waits here for it after forwarding it."""
        kind = payload[:1]
        if kind in (NO_OP, CONFIGURATION):
            return None, None
        if kind != _FORWARDED:
            return payload[1:], None
        (name, request), start = _origin(payload)
        mine = self._forwarded.pop(request, None) if name == self.core.name else None
        return payload[start:], mine

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> None:
        """Until a message, a command, or the time comes."""
        if self._space.is_lacked_by(JOURNAL) or not self.core.is_leader:
            timeout_s = min(timeout_s, RETRY_S)
        self._poller.poll(timeout_s)

    def _woken(self, descriptor: int, events: int) -> None:
        os.eventfd_read(self._wake_fd)
        # Before the turn takes what came: whatever comes later wakes again.
        self._is_woken = False

    def close(self) -> None:
        self._poller.unsubscribe(self._wake_fd)
        os.close(self._wake_fd)


def _is_forwarded(payload: bytes) -> bool:
    """What is in the log is read by every member: it has to be readable."""
    try:
        return payload[:1] == _FORWARDED and bool(_origin(payload))
    except (msgspec.MsgspecError, RecursionError):
        return False


def _origin(payload: bytes) -> tuple[tuple[str, int], int]:
    """Who forwarded an entry, (member, request), and where its command starts."""
    start = 3 + int.from_bytes(payload[1:3], "big")
    return msgspec.msgpack.decode(payload[3:start], type=tuple[str, int]), start
