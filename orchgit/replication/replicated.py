"""The replicated state of one server: the log, the store it drives, and who follows it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable

from orchgit.clock import Clock
from orchgit.errors import (
    OrchgitError,
    RefusedError,
)
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
from orchgit.replication.commands import SetClusterId
from orchgit.replication.data_directory import room_to_start
from orchgit.replication.events import AppliedBatch, AppliedFeed, AppliedFeeds
from orchgit.replication.leadership import Leadership, LeadershipFeed, LeaderSignal
from orchgit.replication.members_at_start import MembersAtStart
from orchgit.replication.opened_state import OpenedState
from orchgit.replication.pending_proposals import Waiting
from orchgit.replication.replication_config import ReplicationConfig
from orchgit.replication.server_host import LoopCallbacks, ServerHost
from orchgit.replication.snapshots import (
    snapshot_index,
    snapshot_members,
)
from orchgit.replication.writing import Writing

__all__ = ["Applied", "ReplicatedState", "ReplicationConfig"]


class ReplicatedState(Writing):
    """Belongs to one event loop. Threads: raft (log, ticks), applier (sole writer of the store)."""

    def __init__(self, config: ReplicationConfig, clock: Clock, ids: IdSource) -> None:
        config.validate()
        self.config = config
        self._clock = clock
        self._ids = ids
        self._feeds = AppliedFeeds()
        self._started = False
        self._waiting = Waiting()
        self._failure: BaseException | None = None
        self._naming: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._lacks_room = asyncio.Event()
        """Set once the disk was full: whoever waits for the first leadership waits no longer."""
        self.leadership = Leadership()
        self._leader_signal = LeaderSignal()

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what is on disk and take part; a lone server leads when this returns.

        A member of a cluster returns at once: who leads is told by `leadership` and
        `leader_address`, and the first leader gives the cluster its id.
        """
        self._loop = asyncio.get_running_loop()
        with room_to_start(self.config.data_dir):
            self._open()
        self._started = True
        self._applier.start()
        self._transport.start(self._node.receive, self._node.loop)
        self._raft.start()
        if self._node.status.members == (Member(self.config.address, True),):
            await self._unless_failed(self.leadership.gained())
            if self.leadership.is_leader:
                await self._give_cluster_id()
        self._naming = asyncio.create_task(self._name_cluster(self.leadership.subscribe()))

    def _open(self) -> None:
        """Everything but the threads; what is open is closed again if something cannot be."""
        config = self.config
        self._opened = OpenedState(config)
        with contextlib.ExitStack() as undo:
            undo.callback(self._opened.discard)
            self.store = self._opened.store
            self._offset = self._opened.index - self._opened.log_index
            self._log_id = self._known_log_id()
            self.space = DiskSpace(lambda: self._loop.call_soon_threadsafe(self._lacks_room.set))
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
                self._loop, self._role_changed, self._leader_signal.tell, self._end
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

    def _refuse_members_out_of_reach(self) -> None:
        others = [one.address for one in self._node.status.members if one.address != self.address]
        if others and not self.config.listens:
            raise RefusedError(
                f"cannot start: this server's cluster has other members ({', '.join(others)}), but "
                "it has no raft address that they can reach; give it the one it had"
            )

    def _known_log_id(self) -> str:
        with self.store.snapshot() as snapshot:
            return snapshot.meta.log_id()

    async def _name_cluster(self, feed: LeadershipFeed) -> None:
        """Whenever this member leads a cluster that has no id yet, until it has one."""
        async for leads in feed:
            if leads:
                with contextlib.suppress(OrchgitError):
                    await self._give_cluster_id()

    async def _give_cluster_id(self) -> None:
        with self.store.snapshot() as snapshot:
            named = snapshot.meta.cluster_id() is not None
        if not named:
            await self.propose(SetClusterId(cluster_id=self._ids.new()))

    async def _unless_failed(self, wanted: Awaitable[None]) -> None:
        """Wait, but not for what can never come, nor for room on a full disk."""
        gained = asyncio.ensure_future(wanted)
        others = [asyncio.ensure_future(one.wait()) for one in (self._ended, self._lacks_room)]
        await asyncio.wait((gained, *others), return_when=asyncio.FIRST_COMPLETED)
        for one in (gained, *others):
            one.cancel()
        if self._failure is not None:
            raise self._unavailable() from self._failure

    async def stop(self) -> None:
        """Take no more writes, finish those that are committed, close everything."""
        if not self._started:
            return
        self._started = False
        self.leadership.close()
        await asyncio.to_thread(self._raft.stop)
        await asyncio.to_thread(self._transport.close)
        await asyncio.to_thread(self._applier.stop)
        for proposal in self._waiting:
            proposal.answer(0, stopped_meanwhile())
        self._waiting.close()
        self._feeds.close()
        if self._naming is not None:
            await self._naming
        self._node.close()
        self._opened.close(failed=self._failure is not None)

    # -- what was applied -------------------------------------------------------------

    @property
    def server_id(self) -> str:
        return self.config.server_id

    @property
    def failure(self) -> BaseException | None:
        """Why this server stopped writing: its disk or its database failed. Reads go on."""
        return self._failure

    async def ended(self) -> None:
        """Returns when writing has failed for good; the server should stop."""
        await self._ended.wait()

    def subscribe(self) -> AppliedFeed:
        """What is applied from now on."""
        return self._feeds.subscribe()

    @property
    def lacks_room(self) -> bool:
        """The disk is full: writes are refused until there is room."""
        return self.space.refusal is not None

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
        self._offset = outcome.offset
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
        if self._failure is None:
            self._failure = error
            self.leadership.set(False)
            for proposal in self._waiting:
                proposal.answer(0, self._unavailable())
            self._ended.set()
