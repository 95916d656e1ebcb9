"""One member: the core, its journal, its transport, and the commands that come in.

A turn takes in what has come, syncs the journal once for all of it, and only then lets messages go
and entries be counted. `raft_forwarding.py` has the commands of followers, `raft_committing.py`
what is committed and who waits for it. Between turns the thread sleeps on a `PollLoop`, in which
the transport's sockets are too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import structlog

from orchgit.clock import boottime_s
from orchgit.errors import DiskFullError, OrchgitError
from orchgit.raft.configuration import ConfigurationEntry, MemberChange
from orchgit.raft.core import RaftConfig, RaftCore, Ready
from orchgit.raft.messages import Forwarded, ForwardRefused, Message
from orchgit.raft.ports import Record, SnapshotRef, Snapshots
from orchgit.raft.state import Role, Timing
from orchgit.raft_log.disk_space import JOURNAL, RETRY_S, DiskSpace
from orchgit.raft_log.journal import Journal
from orchgit.raft_node.commit_delivery import REGULAR, Committing
from orchgit.raft_node.committed import Committed
from orchgit.raft_node.foreign_peers import Strangers
from orchgit.raft_node.forwarding import Forwarding
from orchgit.raft_node.inbox import Inbox
from orchgit.raft_node.proposal import Proposal, not_leader, queue_full
from orchgit.raft_node.proposal_batching import Submission, Submissions
from orchgit.raft_node.status import Reporting
from orchgit.raft_transport.poll_loop import PollLoop
from orchgit.raft_transport.transport import Transport

_log = structlog.get_logger(component="raft")
_CONNECTED_WAIT_S = 1.0
_NAP_S = 0.002
"""What is sent to a leader that waits for no answer is heard so much later at the most."""
_TICK_S = 0.01


class RaftNode(Reporting):
    """All but `submit`, `read`, `transfer`, `name_log`, `receive` and `wake` belongs to the raft
    thread."""

    def __init__(
        self,
        name: str,
        first: ConfigurationEntry,
        journal: Journal,
        snapshots: Snapshots,
        transport: Transport,
        applied_index: int,
        hand_over: Callable[[Sequence[Committed]], None],
        has_room: Callable[[], bool],
        on_role: Callable[[bool], None],
        on_installed: Callable[[SnapshotRef], None],
        timing: Timing | None = None,
        now_s: Callable[[], float] = boottime_s,
        space: DiskSpace | None = None,
        waits_for_admission: bool = False,
        log_id: str = "",
    ) -> None:
        self._name = name
        self._space = space or DiskSpace()
        self._look_for_room_s = 0.0
        self._journal = journal
        self._transport = transport
        self._on_role = on_role
        self._now_s = now_s
        self._timing = timing or Timing()
        core_config = RaftConfig(
            name, first, applied_index, self._timing, log_id, waits_for_admission
        )
        rng = random.Random()  # noqa: S311 (it draws election time-outs)
        self.core = RaftCore(core_config, journal, snapshots, rng, now_s())
        self._forwarding = Forwarding(self.core, transport, self._space)
        self._committing = Committing(
            *(self.core, journal, self._forwarding, applied_index),
            *(hand_over, has_room, on_installed),
        )
        self._last_log_index = journal.last_index
        self.confirmed_s = self.core.confirmed_s
        """As of when a majority has confirmed that this member leads, in the time of `now_s`."""
        self._led = False
        self._led_term: int | None = None
        self._leader: tuple[str | None, int] = (None, 0)
        self._stood_term = 0
        self.on_leader: Callable[[], None] = lambda: None
        """Called on the raft thread when another member, or none, is the leader."""
        self._peers: tuple[str, ...] = ()
        self._strangers = Strangers()
        self._inbox = Inbox()
        self._submissions = Submissions()
        self._napped_index = 0
        self._tick_transport_s = 0.0
        self.loop = PollLoop()

    # -- what other threads may call -------------------------------------------------------------

    def submit(self, command: bytes, proposal: Proposal, forward: bool = False) -> None:
        """Queue a command; the proposal is answered after it was applied, or failed. `forward`:
        a follower sends it to the leader."""
        if self._submissions.are_too_many:
            proposal.fail(queue_full())
        elif self._submissions.put(Submission(command, proposal, forward)):
            self.loop.wake()

    def read(self, done: Callable[[int | None], None]) -> None:
        """Call `done` with the index to have applied before a current read; None if this member
        does not lead (any more). On the raft thread."""
        self.loop.call(lambda: self.core.read(done))

    def transfer(self, target: str, answer: Callable[[OrchgitError | None], None]) -> None:
        """Hand the leadership to another member; `answer` on the raft thread: what is in the way,
        None when it was begun."""
        self.loop.call(lambda: answer(self.core.transfer(target)))

    def change_members(self, change: MemberChange, proposal: Proposal) -> None:
        """Answered when the change is committed and known to the state here."""
        self.loop.call(lambda: self._change_members(change, proposal))

    def bootstrap(self, answer: Callable[[bool], None]) -> None:
        """Form a cluster of this member alone; `answer` on the raft thread: did it have none?"""
        self.loop.call(lambda: answer(self.core.bootstrap()))

    def admit(self, term: int, index: int, answer: Callable[[OrchgitError | None], None]) -> None:
        """A leader has taken this server in; `answer` on the raft thread: what is in the way."""
        self.loop.call(lambda: self._admit(term, index, answer))

    def name_log(self, log_id: str) -> None:
        """Which cluster's log this is, as the state has learned: messages that speak of another one
        are not heard from here on."""

        def named() -> None:
            self.core.state.log_id = log_id

        self.loop.call(named)

    def receive(self, sender: str, message: Message) -> None:
        """From the transport."""
        taken = self._inbox.put(sender, message)
        if not taken and isinstance(message, Forwarded):
            refusal = ForwardRefused(self.core.state.term, message.request, too_much=True)
            self._transport.send(sender, refusal)
        self.wake()

    def wake(self) -> None:
        """Let the raft thread take a turn now."""
        self.loop.wake()

    # -- the raft thread -------------------------------------------------------------------------

    def turn(self) -> None:
        """Everything that can be done now."""
        while True:
            self._look_for_room()
            self._tick_transport()
            self._take_in()
            self._count_first()
            self._take_submitted()
            self._tick()
            self._sync()
            self.core.synced()
            # Before messages leave by which another member may come to lead.
            self.confirmed_s = self.core.confirmed_s
            self._tell_role()
            self._tell_peers()
            if self.core.membership.foreign_peers:
                self._strangers.met(self.core.membership.foreign_peers, self.core.state.log_id)
            self._committing.give_up_doubtful(self._now_s(), self._led_term)
            self._release(self.core.ready())
            self._committing.hand_over(self._now_s())
            self._last_log_index = self._journal.last_index
            asked = self._submissions.ask_for_turn(self.core.awaits_commit, self._now_s())
            if not (asked or self._inbox or self.loop.has_calls):
                return

    def _count_first(self) -> None:
        """What the answers have committed need not wait for what is appended now to be on disk; and
        what waited for this round to end makes up the next one. A follower's state is in no such
        hurry: its applier would only be in the way of this thread."""
        if self.core.awaits_commit:
            self.core.count()
            if self.core.state.installed is None:
                self._committing.hand_over(self._now_s())

    def _tick_transport(self) -> None:
        now_s = self._now_s()
        if now_s >= self._tick_transport_s:
            self._tick_transport_s = now_s + _TICK_S
            self._transport.tick()

    def _look_for_room(self) -> None:
        """From time to time while the log waits for it: then writing goes on."""
        self.core.state.has_room = self._space.suffices_all
        if self.core.state.has_room:
            return
        if self._space.is_lacked_by(JOURNAL) and self._now_s() >= self._look_for_room_s:
            self._look_for_room_s = self._now_s() + RETRY_S
            if self._journal.has_room():
                self._space.suffices(JOURNAL)
                self.core.state.has_room = self._space.suffices_all

    def _tick(self) -> None:
        try:
            self.core.tick(self._now_s())
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)

    def _receive(self, sender: str, message: Message) -> None:
        """What cannot be done for want of room, as keeping a vote, is not answered."""
        try:
            self.core.step(sender, message, self._now_s())
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
            told = self._committing.not_written(record.index, DiskFullError(str(error)))
            if led and not told:
                self._forwarding.give_up(record.payload, str(error))

    def _take_in(self) -> None:
        for sender, message in self._inbox.take():
            if isinstance(message, Forwarded):
                self._forwarding.take(sender, message)
            elif isinstance(message, ForwardRefused):
                self._forwarding.refused(message)
            else:
                self._receive(sender, message)
        self.loop.run_calls()

    def _take_submitted(self) -> None:
        for submission in self._submissions.take(self.core.awaits_commit, self._now_s()):
            self._append(submission)

    def _append(self, submission: Submission) -> None:
        if self.core.is_leader and (refusal := self._space.refusal) is not None:
            submission.proposal.fail(refusal)
            return
        index = self.core.propose(REGULAR + submission.command)
        if index is not None:
            self._committing.wait(index, submission.proposal)
        elif submission.forward and self._forwarding.is_possible:
            self._forwarding.send(submission.command, submission.proposal)
        else:
            submission.proposal.fail(not_leader(self.core.state.leader))

    def _change_members(self, change: MemberChange, proposal: Proposal) -> None:
        if self.core.is_leader and (refusal := self._space.refusal) is not None:
            proposal.fail(refusal)
            return
        try:
            index = self.core.change_members(change)
        except OrchgitError as error:
            proposal.fail(error)
            return
        if index is not None:
            self._committing.wait(index, proposal)
        else:
            proposal.fail(not_leader(self.core.state.leader))

    def _admit(self, term: int, index: int, answer: Callable[[OrchgitError | None], None]) -> None:
        try:
            self.core.membership.admit(term, index)
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)
            answer(error)
        else:
            answer(None)

    def _release(self, ready: Ready) -> None:
        for receiver, message in ready.messages:
            self._transport.send(receiver, message)
        self._transport.flush()
        for done, index in ready.reads:
            done(index)  # type: ignore[operator]
        if ready.installed is not None:
            self._committing.install(ready.installed)

    def _tell_role(self) -> None:
        led, self._led_term = self._led_term, self.core.state.term if self.core.is_leader else None
        self._led = self._led_term is not None
        if led is not None and led != self._led_term:
            _log.info("lost the leadership", term=led, leader=self.core.state.leader or "unknown")
            self._on_role(False)
            self._committing.deposed(self._now_s() + self._timing.election_s[1])
        if self._led and led != self._led_term:
            _log.info("won the election", term=self._led_term)
            self._on_role(True)
        if self.core.state.role is Role.CANDIDATE and self._stood_term != self.core.state.term:
            self._stood_term = self.core.state.term
            _log.info("standing for election", term=self.core.state.term)
        leader = self.core.state.leader, self.core.state.term
        if leader != self._leader:
            if leader[0] is None and self._leader[0] not in (None, self._name):
                _log.warning("lost the leader", leader=self._leader[0], term=self._leader[1])
            self._leader = leader
            self._forwarding.leader_changed(leader)
            self.on_leader()

    def _tell_peers(self) -> None:
        """The transport keeps connections to the members of the newest configuration."""
        if self.core.membership.others != self._peers:
            self._peers = self.core.membership.others
            self._transport.set_peers(self._peers)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> None:
        """Until a message, a command, or the time comes."""
        if self._space.is_lacked_by(JOURNAL) or not self.core.is_leader:
            timeout_s = min(timeout_s, RETRY_S)
        if self._transport.has_connections:
            timeout_s = min(timeout_s, _CONNECTED_WAIT_S)
        if self.core.notify_s is not None:
            timeout_s = min(timeout_s, max(0.0, self.core.notify_s - self._now_s()))
        if self._committing.due_s is not None:
            timeout_s = min(timeout_s, max(0.0, self._committing.due_s - self._now_s()))
        timeout_s = self._submissions.within(timeout_s, self._now_s())
        if self._may_nap():
            self.loop.nap(min(timeout_s, _NAP_S))
        else:
            self.loop.wait(timeout_s)

    def _may_nap(self) -> bool:
        """Once for each end of the log, or a follower that says nothing would keep it awake."""
        last_index = self._journal.last_index
        if last_index == self._napped_index or not self.core.awaits_only_redundant_replies:
            return False
        self._napped_index = last_index
        return True

    def close(self) -> None:
        self.loop.close()
