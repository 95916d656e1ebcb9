"""pysyncobj's Raft, with the parts replaced that may lose or execute what they should not.

This file, `raft_log.py` and `transport.py` are the only ones that know the library. It is pinned to
one version, and a test compares the source of every method that is overridden or relied on here
with what it was when this was written. Replaced: the log and the vote (durable before anything is
counted or sent), applying (handed to the applier thread), compaction (ours), and everything that
unpickles. What a tick sends leaves only after what it says has been synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.config import FAIL_REASON
from pysyncobj.poller import POLL_EVENT_TYPE
from pysyncobj.syncobj import _COMMAND_TYPE, _RAFT_STATE

from orchgit.errors import InvariantError, OrchgitError
from orchgit.replication.applier import Committed
from orchgit.replication.journal import Journal
from orchgit.replication.proposal import (
    Proposal,
    not_leader,
    queue_full,
    unknown_outcome,
)
from orchgit.replication.raft_log import RaftLog
from orchgit.replication.transport import HeldTransport, Member

_REGULAR = bytes((_COMMAND_TYPE.REGULAR,))
_NO_OP = bytes((_COMMAND_TYPE.NO_OP,))
_HAND_OVER = 256
_ELECTION_S = (0.4, 1.2)
_HEARTBEAT_S = 0.1


def _configuration(on_state_changed: Callable[[int, int], None]) -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        # Commands are appended and sent at once by `turn`; the library's own notifier is not used.
        appendEntriesUseBatch=True,
        appendEntriesPeriod=_HEARTBEAT_S,
        raftMinTimeout=_ELECTION_S[0],
        raftMaxTimeout=_ELECTION_S[1],
        leaderFallbackTimeout=_ELECTION_S[1],
        commandsQueueSize=65536,
        commandsWaitLeader=True,
        dynamicMembershipChange=False,
        journalFile=None,
        fullDumpFile=None,
        useFork=False,
        onStateChanged=on_state_changed,
    )


class RaftNode(SyncObj):  # type: ignore[misc]
    """One member. All but `submit` and `wake` belongs to the raft thread."""

    def __init__(
        self,
        member: Member,
        journal: Journal,
        transport: HeldTransport,
        applied_index: int,
        hand_over: Callable[[Sequence[Committed]], None],
        has_room: Callable[[], bool],
        on_role: Callable[[bool], None],
    ) -> None:
        self._journal = journal
        self._held = transport
        self._hand_over = hand_over
        self._has_room = has_room
        self._on_role = on_role
        self._awake = False
        super().__init__(
            member, list(transport.peers), conf=_configuration(self._role), transport=transport
        )
        self._use_journal(applied_index)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.subscribe(self._wake_fd, self._woken, POLL_EVENT_TYPE.READ)

    def _use_journal(self, applied_index: int) -> None:
        """Put our log in place of the one in memory that the constructor made."""
        if self._journal.last_index == 0:
            self._journal.append(0, _NO_OP)
            self._journal.sync()
        vote = self._journal.vote
        self._SyncObj__raftLog = RaftLog(self._journal)
        self._SyncObj__raftCurrentTerm = max(
            vote.term, self._journal.term(self._journal.last_index)
        )
        self._SyncObj__votedForNodeId = vote.voted_for
        # What this server applied was committed; a rebuilt store begins again before it.
        self._SyncObj__raftCommitIndex = max(applied_index, 1)
        self._SyncObj__raftLastApplied = applied_index
        if not self._held.peers:
            self._SyncObj__raftElectionDeadline = 0.0

    # -- what other threads may call -------------------------------------------------------------

    def submit(self, command: bytes, proposal: Proposal) -> None:
        """Queue a command; the proposal is answered after it was applied, or failed."""
        self._applyCommand(command, _Callback(self, proposal), _COMMAND_TYPE.REGULAR)
        self.wake()

    def wake(self) -> None:
        """Let the raft thread take a turn now."""
        os.eventfd_write(self._wake_fd, 1)

    @property
    def is_raft_leader(self) -> bool:
        return bool(self._isLeader())

    @property
    def leader_address(self) -> str | None:
        leader = self._getLeader()
        return str(leader.id) if leader is not None else None

    @property
    def term(self) -> int:
        return int(self.raftCurrentTerm)

    # -- the raft thread -------------------------------------------------------------------------

    def turn(self) -> None:
        """Everything that can be done now, until nothing is left that waits for the disk.

        A tick ends by polling, which may take the wake-up of a command that came during the tick.
        """
        self._awake = True
        while self._awake or self._journal.has_pending:
            self._journal.sync()
            self._held.release()
            self._awake = False
            self._onTick(0.0)
        self._held.release()

    def wait(self, timeout_s: float) -> None:
        """Until a message, a command, or the time comes."""
        self._poller.poll(timeout_s)

    def _woken(self, descriptor: int, events: int) -> None:
        os.eventfd_read(self._wake_fd)
        self._awake = True

    def close(self) -> None:
        self._poller.unsubscribe(self._wake_fd)
        os.close(self._wake_fd)
        self._held.destroy()

    def _role(self, old: int, new: int) -> None:
        if _RAFT_STATE.LEADER in (old, new):
            self._on_role(new == _RAFT_STATE.LEADER)

    # -- replaced parts of the library (its names) -----------------------------------------------

    def _checkCommandsToApply(self) -> None:
        """After the commands, send at once: the library would wait for the next heartbeat."""
        before = self._journal.last_index
        super()._checkCommandsToApply()
        if self._journal.last_index != before and self._held.peers:
            self._SyncObj__sendAppendEntries()

    def _SyncObj__applyLogEntries(self) -> bool:
        """Hand committed entries to the applier thread, as far as it has room."""
        index = self._SyncObj__raftLastApplied
        batch: list[Committed] = []
        while index < self._SyncObj__raftCommitIndex and self._has_room():
            index += 1
            batch.append(self._committed(index))
            if len(batch) == _HAND_OVER:
                self._hand_over(batch)
                batch = []
        if batch:
            self._hand_over(batch)
        self._SyncObj__raftLastApplied = index
        return False

    def _committed(self, index: int) -> Committed:
        record = self._journal.record(index)
        proposals = []
        for term, callback in self._SyncObj__commandsWaitingCommit.pop(index, ()):
            if term == record.term:
                proposals.append(callback.proposal)
            else:
                callback(None, FAIL_REASON.DISCARDED)
        is_command = record.payload[:1] == _REGULAR
        elects = index == self._SyncObj__noopIDx and self.is_raft_leader
        return Committed(index, record.payload[1:] if is_command else None, proposals, elects)

    def _SyncObj__tryLogCompaction(self) -> None:
        """The journal is compacted after a snapshot of the store is on disk."""

    def _SyncObj__parseChangeClusterRequest(self, command: bytes) -> None:
        """The library would unpickle the command."""

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:
        """The library would unpickle the command and call what it names."""
        raise InvariantError("cannot apply a command here: entries go to the applier thread")


_FAILURES: dict[int, Callable[[], OrchgitError]] = {
    FAIL_REASON.QUEUE_FULL: queue_full,
    FAIL_REASON.DISCARDED: unknown_outcome,
    FAIL_REASON.UNKNOWN_OUTCOME: unknown_outcome,
    FAIL_REASON.LEADER_CHANGED: unknown_outcome,
}


class _Callback:
    """What the library calls when a command cannot be applied; success is answered elsewhere."""

    __slots__ = ("_node", "proposal")

    def __init__(self, node: RaftNode, proposal: Proposal) -> None:
        self._node = node
        self.proposal = proposal

    def __call__(self, result: object, reason: int) -> None:
        make = _FAILURES.get(reason)
        self.proposal.fail(make() if make else not_leader(self._node.leader_address))
