"""One node's stream: reports and heartbeats come up, allocation sets go down.

Two tasks feed one bounded queue of frames to send: the reader answers the agent's frames in their
order, the pusher waits for changes of this node's allocations. The first set is made when the first
reports have been applied, so that everything the agent runs is answered in one exchange.

Whatever ends either ends the stream; the agent connects again and starts over with its hello. That
a stream is gone does not make a node down: its missed heartbeats do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from orchgit.control.leader import Control
from orchgit.errors import InvalidInputError, OrchgitError, UnavailableError
from orchgit.model.node import NodeStatus
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.rpc.allocation_sets import changed_set, first_set, still_runs
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.services.csi.node_calls import NodeCalls
from orchgit.services.services import NodeUseCases
from orchgit.state.changes import target
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from orchgit.wire.messages import (
    AgentAllocReports,
    AgentFrame,
    AgentHeartbeat,
    AgentHello,
    AgentNodeUpdate,
    AllocReport,
    CsiAnswer,
    CsiCall,
    HeartbeatAck,
    Refused,
    ReportsAck,
    ServerFrame,
    VolumeSet,
    Welcome,
)

MAX_FRAMES_WAITING = 16
WATCH_TIMEOUT_S = 300.0
OUT_OF_TOUCH = (NodeStatus.DOWN, NodeStatus.DISCONNECTED)


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What a server says of itself to agents. `acl`: whether access control is on."""

    server_id: str
    acl: bool = False


class NodeStream:
    """Serves one connection of one agent."""

    def __init__(
        self,
        nodes: NodeUseCases,
        control: Control,
        store: Store,
        identity: ServerIdentity,
        cluster: ServerDirectory,
        calls: NodeCalls,
    ) -> None:
        self._calls = calls
        self._nodes = nodes
        self._control = control
        self._store = store
        self._identity = identity
        self._cluster = cluster
        self._frames: asyncio.Queue[ServerFrame] = asyncio.Queue(MAX_FRAMES_WAITING)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reported = asyncio.Event()
        self._at_work: frozenset[str] = frozenset()
        """What the agent ran when the session began."""
        self.node_id = ""
        """Empty before the hello, and for a node of another cluster."""

    def end(self, error: OrchgitError) -> None:
        """The agent is told why."""
        if not self._over.done():
            self._over.set_exception(error)

    async def hello(self, frames: AsyncIterator[AgentFrame]) -> Welcome:
        """Register the node that says hello; one of another cluster is only told which this is.
        Raises InvalidInputError on another first frame, NotLeaderError where another server leads.
        """
        first = await anext(frames, None)
        if not isinstance(first, AgentHello):
            raise InvalidInputError("cannot serve the stream: its first frame must be a hello")
        if not self._cluster.cluster.may_be(first.cluster):
            return Welcome(server_id=self._identity.server_id, cluster=self._cluster.cluster)
        await self._control.lead_or_refuse()
        cluster = self._cluster.cluster
        if not cluster.cluster_id:
            raise UnavailableError("cannot take nodes yet: the cluster has no id; try again")
        change = await self._nodes.register(first.node, first.introduction)
        self.node_id = first.node.id
        self._reports = self._nodes.reports(self.node_id)
        ttl_s = self._control.heartbeat(self.node_id)
        if change.status in OUT_OF_TOUCH:
            await self._nodes.update_status(self.node_id, NodeStatus.READY)
        return Welcome(
            server_id=self._identity.server_id,
            acl=self._identity.acl,
            heartbeat_ttl_s=ttl_s,
            address=self._cluster.address,
            term=self._cluster.term,
            servers=self._cluster.rpc_addresses(),
            cluster=cluster,
        )

    async def run(self, frames: AsyncIterator[AgentFrame]) -> AsyncIterator[ServerFrame]:
        """Frames for the agent, after the welcome."""
        work = (
            self._read(frames),
            self._push_allocations(),
            self._push_volumes(),
        )
        send = self._call
        self._calls.attach(self.node_id, send)
        tasks: set[asyncio.Future[Any]] = {asyncio.create_task(each) for each in work}
        tasks.add(self._over)
        try:
            while True:
                frame = asyncio.create_task(self._frames.get())
                try:
                    await asyncio.wait({frame, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    frame.cancel()
                    raise
                if frame.done():
                    yield frame.result()
                    continue
                frame.cancel()
                for task in tasks:
                    if task.done():
                        task.result()
                return
        finally:
            self._calls.detach(self.node_id, send)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- up ------------------------------------------------------------------------------------

    async def _read(self, frames: AsyncIterator[AgentFrame]) -> None:
        async for frame in frames:
            if isinstance(frame, AgentHeartbeat):
                await self._frames.put(await self._beat(frame))
            elif isinstance(frame, AgentAllocReports):
                await self._frames.put(await self._take_reports(frame))
            elif isinstance(frame, CsiAnswer):
                self._calls.answered(frame)
            elif isinstance(frame, AgentNodeUpdate):
                await self._update(frame)
            else:
                raise InvalidInputError("cannot serve the stream: it said hello twice")

    def _call(self, call: CsiCall) -> None:
        try:
            self._frames.put_nowait(call)
        except asyncio.QueueFull:
            raise UnavailableError(
                f"cannot call a plugin of node {self.node_id}: too much waits for the node"
            ) from None

    async def _beat(self, frame: AgentHeartbeat) -> ServerFrame:
        with self._store.snapshot() as snapshot:
            node = snapshot.nodes.get(self.node_id)
        if node is None or node.status in OUT_OF_TOUCH:
            raise UnavailableError(
                f"cannot go on with node {self.node_id}: the servers think it is "
                f"{node.status if node else 'gone'}; connect again and report everything"
            )
        ttl_s = self._control.heartbeat(self.node_id)
        await self._reports.store_left_out()
        if self._reported.is_set() and node.status != frame.status:
            await self._nodes.update_status(self.node_id, frame.status)
        return HeartbeatAck(ttl_s, self._cluster.rpc_addresses())

    async def _take_reports(self, frame: AgentAllocReports) -> ServerFrame:
        """The first reports say how everything is; only then may the node get work."""
        updates = [_client_update(report) for report in frame.reports]
        index = await self._reports.take(updates)
        if not self._reported.is_set():
            self._at_work = still_runs(frame.reports)
            await self._nodes.update_status(self.node_id, NodeStatus.READY)
            self._reported.set()
        return ReportsAck(seq=frame.seq, index=index)

    async def _update(self, frame: AgentNodeUpdate) -> None:
        if frame.node.id != self.node_id:
            raise InvalidInputError(f"cannot update node {frame.node.id} on this node's stream")
        try:
            await self._nodes.register(frame.node)
            await self._nodes.take_volume_results(self.node_id, frame.volumes)
        except InvalidInputError as error:
            await self._frames.put(Refused(message=str(error)))

    # -- down ----------------------------------------------------------------------------------

    async def _push_volumes(self) -> None:
        """Send the node's volumes at first and whenever they are others."""
        sent: list[tuple[object, ...]] | None = None
        while True:
            with self._store.snapshot() as snapshot:
                volumes = snapshot.host_volumes.all(None, node_id=self.node_id)
                index = snapshot.index
            asked = [(each.id, *each.request) for each in volumes]
            if asked != sent and (asked or sent is not None):
                await self._frames.put(VolumeSet(volumes=volumes))
            sent = asked
            await self._store.watch.wait(["host_volumes"], index, WATCH_TIMEOUT_S)

    async def _push_allocations(self) -> None:
        """Send the whole set once the agent has reported, then what changes."""
        with self._store.snapshot() as snapshot:
            restored_index = self._same_state(snapshot, None)
        await self._reported.wait()
        watched = [target("allocations_by_node", self.node_id)]
        sent_index = 0
        sent_ids: list[str] = []
        while True:
            with self._store.snapshot() as snapshot:
                self._same_state(snapshot, restored_index)
                if sent_index:
                    news = changed_set(snapshot, self.node_id, sent_index)
                else:
                    news = first_set(snapshot, self.node_id, self._at_work)
            if news.changed or news.jobless or news.wanted != sent_ids or not sent_index:
                await self._frames.put(news)
            sent_index, sent_ids = news.index, news.wanted
            await self._store.watch.wait(watched, news.index, WATCH_TIMEOUT_S)

    def _same_state(self, snapshot: Snapshot, known: int | None) -> int:
        """After a restore nothing that was said before counts."""
        restored_index = snapshot.meta.restored_index()
        if known not in (None, restored_index):
            raise UnavailableError(
                f"cannot go on with node {self.node_id}: the servers' state was restored from a "
                "snapshot; connect again and report everything"
            )
        return restored_index


def _client_update(report: AllocReport) -> AllocClientUpdate:
    return AllocClientUpdate(
        alloc_id=report.alloc_id,
        client_status=report.client_status,
        client_description=report.client_description,
        task_states=report.task_states,
        deployment_healthy=report.deployment_healthy,
        deployment_healthy_at_ns=report.deployment_healthy_at_ns,
        network_status=report.network_status,
        driver_addresses=report.driver_addresses,
    )
