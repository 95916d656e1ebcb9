"""The replicated state of one server: the log, the store it drives, and who follows it."""

from __future__ import annotations

import asyncio
import contextlib

from orchgit.clock import Clock
from orchgit.errors import RefusedError
from orchgit.ids import IdSource
from orchgit.raft.configuration import Member
from orchgit.raft.core import RaftConfig
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_node.node import RaftNode
from orchgit.raft_node.proposal import Applied, stopped_meanwhile
from orchgit.raft_node.thread import RaftThread
from orchgit.raft_transport.tcp import TcpTransport
from orchgit.raft_transport.transport import LoneTransport, Transport
from orchgit.replication.applier import Applier, Outcome
from orchgit.replication.cluster import Cluster
from orchgit.replication.cluster_naming import ClusterNaming
from orchgit.replication.commands.codec import Command
from orchgit.replication.current_reads import CurrentReads
from orchgit.replication.data_directory import room_to_start
from orchgit.replication.events import AppliedBatch, AppliedFeed, AppliedFeeds
from orchgit.replication.leadership import Leadership
from orchgit.replication.members_at_start import MembersAtStart
from orchgit.replication.membership_changes import MembershipChanges
from orchgit.replication.opened_state import OpenedState
from orchgit.replication.pending_proposals import PendingProposals
from orchgit.replication.proposal import RequestWrites
from orchgit.replication.replication_config import ReplicationConfig
from orchgit.replication.running_node import RunningNode
from orchgit.replication.server_host import LoopCallbacks, ServerHost
from orchgit.replication.snapshots import (
    snapshot_index,
    snapshot_members,
)
from orchgit.replication.write_failure import WriteFailure
from orchgit.replication.writer import Writer

__all__ = ["Applied", "ReplicatedState", "ReplicationConfig"]


class ReplicatedState:
    """Belongs to one event loop. Threads: raft (log, ticks), applier (sole writer of the store).

    `store`, `writer`, `reads` and `membership` are there once `start` has opened the files.
    """

    def __init__(self, config: ReplicationConfig, clock: Clock, ids: IdSource) -> None:
        config.validate()
        self.config = config
        self._clock = clock
        self._ids = ids
        self._feeds = AppliedFeeds()
        self._pending = PendingProposals()
        self._naming_task: asyncio.Task[None] | None = None
        self._lacked_room = asyncio.Event()
        """Set once the disk was full: the first leadership is waited for no longer."""
        self._running_node = RunningNode()
        self.failure = WriteFailure()
        """Why this server stopped writing: its disk or its database failed."""
        self.leadership = Leadership()
        self.cluster = Cluster(config, self._running_node, self.leadership)
        self.space = DiskSpace(lambda: self._loop.call_soon_threadsafe(self._lacked_room.set))

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what is on disk and take part; a lone server leads when this returns.

        A member of a cluster returns at once: `leadership` and `cluster` tell who leads, and the
        first leader gives the cluster its id.
        """
        self._loop = asyncio.get_running_loop()
        with room_to_start(self.config.data_dir):
            self._open()
        self._running_node.start(self._node)
        self._applier.start()
        self._transport.start(self._node.receive, self._node.loop)
        self._raft.start()
        if self._node.status.members == (Member(self.config.address, True),):
            await self._first_leadership()
            if self.leadership.is_leader:
                await self._naming.give_id()
        self._naming_task = asyncio.create_task(self._naming.run(self.leadership.subscribe()))

    def _open(self) -> None:
        """Everything but the threads; what is open is closed again if something cannot be."""
        config = self.config
        self._opened = OpenedState(config)
        with contextlib.ExitStack() as undo:
            undo.callback(self._opened.discard)
            self.store = self._opened.store
            self._log_id = self._known_log_id()
            self._make_parts()
            self._applier = Applier(
                self.store,
                on_applied=lambda outcome: self._loop.call_soon_threadsafe(self._publish, outcome),
                on_failure=lambda error: self._loop.call_soon_threadsafe(self._end, error),
                on_room=lambda: self._node.wake(),
                space=self.space,
                disk=config.disk,
            )
            members_at_start = MembersAtStart(
                config.data_dir / "raft", config.address, self._opened.journal
            )
            given = (config.address, *config.peers) if config.bootstrap else ()
            first = members_at_start.members(snapshot_members(self._opened.files.store), given)
            self._transport: Transport = (
                TcpTransport(config.address, config.cluster, config.tls, config.bind)
                if config.listens
                else LoneTransport()
            )
            undo.callback(self._transport.close)
            raft_config = RaftConfig(
                config.address,
                first,
                self._opened.log_index,
                config.timing,
                self._log_id,
                config.needs_admission,
            )
            callbacks = LoopCallbacks(
                self._loop, self._role_changed, self.cluster.leader_changed, self._end
            )
            host = ServerHost(
                self._opened,
                self._transport,
                self._applier,
                self.space,
                config.disk,
                callbacks,
            )
            self._node = RaftNode(raft_config, host)
            self._refuse_members_out_of_reach()
            members_at_start.remember_address()
            newest = snapshot_index(self._opened.files.snapshot)
            self._raft = RaftThread(self._node, host, newest, config.snapshot_log_bytes)
            undo.pop_all()

    def _make_parts(self) -> None:
        node, cluster, config = self._running_node, self.cluster, self.config
        self.writer = Writer(
            node, cluster, self.store, self._clock, self._pending, self.failure, self.space
        )
        offset = self._opened.index - self._opened.log_index
        self.reads = CurrentReads(node, cluster, self.store.watch, offset)
        self.membership = MembershipChanges(
            node, cluster, self._pending, config.listens, self._formed
        )
        self._naming = ClusterNaming(self.store, self.writer, self._ids)

    def _refuse_members_out_of_reach(self) -> None:
        own = self.config.address
        others = [one.address for one in self._node.status.members if one.address != own]
        if others and not self.config.listens:
            raise RefusedError(
                f"cannot start: this server's cluster has other members ({', '.join(others)}), but "
                "it has no raft address that they can reach; give it the one it had"
            )

    def _known_log_id(self) -> str:
        with self.store.snapshot() as snapshot:
            return snapshot.meta.log_id()

    async def _first_leadership(self) -> None:
        """Waits until this server leads, but not for what can never come, nor for room on a full
        disk."""
        events = (self.leadership.gained(), self.failure.happened(), self._lacked_room.wait())
        waits = [asyncio.ensure_future(one) for one in events]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        self.failure.check()

    async def _formed(self) -> None:
        await self._first_leadership()
        await self._naming.give_id()

    async def stop(self) -> None:
        """Take no more writes, finish those that are committed, close everything."""
        if self._running_node.status is None:
            return
        self._running_node.stop()
        self.leadership.close()
        await asyncio.to_thread(self._raft.stop)
        await asyncio.to_thread(self._transport.close)
        await asyncio.to_thread(self._applier.stop)
        for proposal in self._pending:
            proposal.answer(0, stopped_meanwhile())
        self._pending.close()
        self._feeds.close()
        if self._naming_task is not None:
            await self._naming_task
        self._node.close()
        self._opened.close(failed=self.failure.error is not None)

    # -- writing and following -------------------------------------------------------------------

    async def propose(
        self,
        command: Command,
        timeout_s: float = 30.0,
        forward: bool = False,
        writes: RequestWrites | None = None,
    ) -> Applied:
        """See `Writer.propose`."""
        return await self.writer.propose(command, timeout_s, forward, writes)

    def subscribe(self) -> AppliedFeed:
        """What is applied from now on."""
        return self._feeds.subscribe()

    @property
    def log_syncs(self) -> int:
        """How often the journal was made durable since the start."""
        return self._opened.journal.syncs

    @property
    def log_synced_bytes(self) -> int:
        return self._opened.journal.synced_bytes

    # -- called by the threads -------------------------------------------------------------------

    def _publish(self, outcome: Outcome) -> None:
        """The order matters: who is woken by an answer finds the store's readers up to date."""
        self.reads.offset = outcome.offset
        if outcome.replaced:
            self.store.publish_replaced(outcome.changes, outcome.index)
        else:
            self.store.publish(outcome.changes, outcome.index)
        if not self._log_id:
            # The state may say now which log this is; that never changes.
            self._log_id = self._known_log_id()
            if self._log_id:
                self._node.name_log(self._log_id)
        self._feeds.push(
            AppliedBatch(
                outcome.index,
                outcome.changes,
                outcome.effects,
                open_snapshot=self.store.snapshot,
                replaced=outcome.replaced,
            )
        )
        if outcome.elects and self._node.status.is_leader:
            self.leadership.set(True)
        if outcome.effects.restored:
            self.leadership.renew()
        for proposal, index, result in outcome.answers:
            proposal.answer(index, result)

    def _role_changed(self, leads: bool) -> None:
        """Lost at once; gained when the first entry of the new term has been applied."""
        if not leads:
            self.leadership.set(False)

    def _end(self, error: BaseException) -> None:
        """Nothing can be acknowledged any more."""
        if self.failure.error is None:
            self.failure.happen(error)
            self.leadership.set(False)
            for proposal in self._pending:
                proposal.answer(0, self.failure.refusal())
