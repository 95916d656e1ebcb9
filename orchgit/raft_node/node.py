"""One member of a cluster at work: the rules of Raft with a journal, a transport and the time.

A turn takes in what has come, syncs the journal once for all of it, and only then sends messages
and counts entries. Between turns the raft thread sleeps on a `PollLoop`, in which the transport's
sockets are too.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import structlog

from orchgit.errors import DiskFullError, OrchgitError
from orchgit.raft.configuration import MemberChange
from orchgit.raft.core import RaftConfig, RaftCore, RaftReady
from orchgit.raft.messages import Forwarded, ForwardRefused, Message
from orchgit.raft.state import Role
from orchgit.raft_log.disk_space import JOURNAL, RETRY_S
from orchgit.raft_node.commit_delivery import REGULAR, CommitDelivery
from orchgit.raft_node.foreign_peers import ForeignPeerReport
from orchgit.raft_node.forwarding import ProposalForwarding
from orchgit.raft_node.host import NodeHost
from orchgit.raft_node.inbox import Inbox
from orchgit.raft_node.proposal import Proposal, not_leader, queue_full
from orchgit.raft_node.proposal_batching import ProposalQueue, QueuedProposal
from orchgit.raft_node.status import RaftNodeStatus
from orchgit.raft_transport.poll_loop import PollLoop

_log = structlog.get_logger(component="raft")
_CONNECTED_WAIT_S = 1.0
_WAIT_WITHOUT_IO_S = 0.002
"""Messages to a leader that waits for no reply are read so much later at the most."""
_TICK_S = 0.01


class RaftNode:
    """The methods of the first section are for any thread, and so is `status`; the rest belongs to
    the raft thread."""

    def __init__(self, config: RaftConfig, host: NodeHost) -> None:
        self._config = config
        self._host = host
        self._journal = host.journal
        self._transport = host.transport
        self._space = host.space
        self._now_s = host.now_s
        rng = random.Random()  # noqa: S311 (it draws election time-outs)
        self.core = RaftCore(config, host.journal, host.snapshots, rng, host.now_s())
        self.status = RaftNodeStatus(self.core, host.journal.last_index, host.now_s)
        self.loop = PollLoop()
        self._inbox = Inbox()
        self._queue = ProposalQueue()
        self._forwarding = ProposalForwarding(self.core, host.transport, host.space)
        self.delivery = CommitDelivery(self.core, host, self._forwarding, config.applied_index)
        self._foreign_peers = ForeignPeerReport()
        self._stood_term = 0
        self._peers: tuple[str, ...] = ()
        self._check_room_s = 0.0
        self._tick_transport_s = 0.0
        self._waited_without_io_at = 0
        """The end of the log for which the thread has waited without I/O."""

    # -- what other threads may call -------------------------------------------------------------

    def submit(self, command: bytes, proposal: Proposal, forward: bool = False) -> None:
        """Queues a command; the proposal is answered after it was applied, or failed. `forward`:
        a follower sends it to the leader."""
        if self._queue.is_full:
            proposal.fail(queue_full())
        elif self._queue.put(QueuedProposal(command, proposal, forward)):
            self.loop.wake()

    def read(self, done: Callable[[int | None], None]) -> None:
        """Calls `done` on the raft thread with the index that must be applied before a current
        read; None if this member does not lead (any more)."""
        self.loop.call(lambda: self.core.read(done))

    def transfer(self, target: str, answer: Callable[[OrchgitError | None], None]) -> None:
        """Transfers the leadership to another member; calls `answer` on the raft thread with what
        is in the way, or None when the transfer has begun."""
        self.loop.call(lambda: answer(self.core.transfer(target)))

    def change_members(self, change: MemberChange, proposal: Proposal) -> None:
        """The proposal is answered when the change is committed and known to the state here."""
        self.loop.call(lambda: self._change_members(change, proposal))

    def bootstrap(self, answer: Callable[[bool], None]) -> None:
        """Forms a cluster of this member alone; calls `answer` on the raft thread: False if it
        belongs to a cluster already."""
        self.loop.call(lambda: answer(self.core.bootstrap()))

    def admit(self, term: int, index: int, answer: Callable[[OrchgitError | None], None]) -> None:
        """A leader has added this server; calls `answer` on the raft thread with what is in the
        way, else None."""
        self.loop.call(lambda: self._admit(term, index, answer))

    def name_log(self, log_id: str) -> None:
        """The state has learned which cluster's log this is: leaders and candidates that name
        another one are refused from here on."""

        def named() -> None:
            self.core.state.log_id = log_id

        self.loop.call(named)

    def receive(self, sender: str, message: Message) -> None:
        """Takes a message from the transport."""
        taken = self._inbox.put(sender, message)
        if not taken and isinstance(message, Forwarded):
            refusal = ForwardRefused(self.core.state.term, message.request, too_much=True)
            self._transport.send(sender, refusal)
        self.wake()

    def wake(self) -> None:
        """Makes the raft thread take a turn now."""
        self.loop.wake()

    # -- a turn ----------------------------------------------------------------------------------

    def turn(self) -> None:
        """Does everything that can be done now."""
        while True:
            self._check_room()
            self._tick_transport()
            self._take_messages()
            self._count_early()
            self._take_proposals()
            self._tick()
            self._sync()
            self.core.synced()
            # Before messages leave by which another member may come to lead.
            self.status.confirmed_s = self.core.confirmed_s
            self._publish_role()
            self._publish_leader()
            self._publish_members()
            self.delivery.give_up_lost(self._now_s(), self.status.led_term)
            self._release(self.core.ready())
            self.delivery.deliver(self._now_s())
            log_end = self.core.state.log.last
            self.status.last_log_index, self.status.last_log_term = log_end
            has_work = self._queue.has_work(self.core.awaits_commit, self._now_s())
            if not (has_work or self._inbox or self.loop.has_calls):
                return

    def _check_room(self) -> None:
        """From time to time while the disk is full: writing goes on when there is room again."""
        state = self.core.state
        state.has_room = self._space.suffices_all
        if state.has_room:
            return
        if self._space.is_lacked_by(JOURNAL) and self._now_s() >= self._check_room_s:
            self._check_room_s = self._now_s() + RETRY_S
            if self._journal.has_room():
                self._space.suffices(JOURNAL)
                state.has_room = self._space.suffices_all

    def _tick_transport(self) -> None:
        now_s = self._now_s()
        if now_s >= self._tick_transport_s:
            self._tick_transport_s = now_s + _TICK_S
            self._transport.tick()

    def _take_messages(self) -> None:
        for sender, message in self._inbox.take():
            if isinstance(message, Forwarded):
                self._forwarding.take(sender, message)
            elif isinstance(message, ForwardRefused):
                self._forwarding.refused(message)
            else:
                try:
                    self.core.step(sender, message, self._now_s())
                except DiskFullError as error:
                    # A vote that cannot be stored is not given.
                    self._space.lacks(JOURNAL, error)
        self.loop.run_calls()

    def _count_early(self) -> None:
        """What replies have committed need not wait until what is appended now is on disk; and
        proposals that waited for the end of this round make up the next one. A follower's state is
        in no such hurry: its applier would only slow this thread down."""
        if self.core.awaits_commit:
            self.core.count()
            if self.core.state.installed is None:
                self.delivery.deliver(self._now_s())

    def _take_proposals(self) -> None:
        for queued in self._queue.take(self.core.awaits_commit, self._now_s()):
            proposal = queued.proposal
            if self._is_refused_for_room(proposal):
                continue
            index = self.core.propose(REGULAR + queued.command)
            if index is not None:
                self.delivery.wait(index, proposal)
            elif queued.forward and self._forwarding.is_possible:
                self._forwarding.send(queued.command, proposal)
            else:
                proposal.fail(not_leader(self.core.state.leader))

    def _change_members(self, change: MemberChange, proposal: Proposal) -> None:
        if self._is_refused_for_room(proposal):
            return
        try:
            index = self.core.change_members(change)
        except OrchgitError as error:
            proposal.fail(error)
            return
        if index is not None:
            self.delivery.wait(index, proposal)
        else:
            proposal.fail(not_leader(self.core.state.leader))

    def _is_refused_for_room(self, proposal: Proposal) -> bool:
        """A leader whose disk is full fails the proposal at once."""
        refusal = self._space.refusal if self.core.is_leader else None
        if refusal is not None:
            proposal.fail(refusal)
        return refusal is not None

    def _admit(self, term: int, index: int, answer: Callable[[OrchgitError | None], None]) -> None:
        try:
            self.core.membership.admit(term, index)
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)
            answer(error)
        else:
            answer(None)

    def _tick(self) -> None:
        try:
            self.core.tick(self._now_s())
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)

    def _sync(self) -> None:
        """A full disk is no failure: what was appended is given up, before any other member heard
        of it."""
        try:
            self._journal.sync()
        except DiskFullError as error:
            self._space.lacks(JOURNAL, error)
            led = self.core.is_leader
            records = self._journal.take_back()
            self.core.tail_lost()
            for record in records:
                told = self.delivery.not_written(record.index, DiskFullError(str(error)))
                if led and not told:
                    self._forwarding.give_up(record.payload, str(error))

    def _release(self, ready: RaftReady) -> None:
        for receiver, message in ready.messages:
            self._transport.send(receiver, message)
        self._transport.flush()
        for done, index in ready.reads:
            done(index)  # type: ignore[operator]
        if ready.installed is not None:
            self.delivery.install(ready.installed)

    # -- what has changed ------------------------------------------------------------------------

    def _publish_role(self) -> None:
        state, status = self.core.state, self.status
        led_term = status.led_term
        status.led_term = state.term if self.core.is_leader else None
        if led_term != status.led_term:
            if led_term is not None:
                _log.info("lost the leadership", term=led_term, leader=state.leader or "unknown")
                self._host.role_changed(False)
                self.delivery.deposed(self._now_s() + self._config.timing.election_s[1])
            if status.led_term is not None:
                _log.info("won the election", term=status.led_term)
                self._host.role_changed(True)
        if state.role is Role.CANDIDATE and self._stood_term != state.term:
            self._stood_term = state.term
            _log.info("standing for election", term=state.term)

    def _publish_leader(self) -> None:
        leader_and_term = self.core.state.leader, self.core.state.term
        known = self.status.leader_and_term
        if leader_and_term != known:
            if leader_and_term[0] is None and known[0] not in (None, self._config.name):
                _log.warning("lost the leader", leader=known[0], term=known[1])
            self.status.leader_and_term = leader_and_term
            self._forwarding.leader_changed(leader_and_term)
            self._host.leader_changed()

    def _publish_members(self) -> None:
        """The transport keeps connections to the members of the newest configuration."""
        membership = self.core.membership
        if membership.others != self._peers:
            self._peers = membership.others
            self._transport.set_peers(self._peers)
        if membership.foreign_peers:
            self._foreign_peers.report(membership.foreign_peers, self.core.state.log_id)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> None:
        """Sleeps until a message, a command, or the time comes."""
        now_s = self._now_s()
        if self._space.is_lacked_by(JOURNAL) or not self.core.is_leader:
            timeout_s = min(timeout_s, RETRY_S)
        if self._transport.has_connections:
            timeout_s = min(timeout_s, _CONNECTED_WAIT_S)
        for due_s in (self.core.notify_s, self.delivery.due_s):
            if due_s is not None:
                timeout_s = min(timeout_s, max(0.0, due_s - now_s))
        timeout_s = self._queue.limited(timeout_s, now_s)
        last_index = self._journal.last_index
        # Once for each end of the log: a follower that never replies would keep the thread awake.
        if last_index != self._waited_without_io_at and self.core.awaits_only_redundant_replies:
            self._waited_without_io_at = last_index
            timeout_s = min(timeout_s, _WAIT_WITHOUT_IO_S)
            self.loop.wait_without_io(timeout_s)
        else:
            self.loop.wait(timeout_s)
        self._notice_late_end(now_s + timeout_s)

    def _notice_late_end(self, due_s: float) -> None:
        """A wait that ended much later than it was to end: this thread got no processor, or the
        machine was paused."""
        now_s = self._now_s()
        late_s, timing = now_s - due_s, self._config.timing
        if late_s < timing.heartbeat_s:
            return
        self.core.stood_still(late_s, now_s)
        if late_s >= timing.election_s[0]:
            _log.info("stood still; elections leave this time out", seconds=round(late_s, 2))

    def close(self) -> None:
        self.loop.close()
