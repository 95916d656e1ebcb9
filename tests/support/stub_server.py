"""The server's side of a node's stream, on real gRPC: keeps what it hears, says what it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable

from orchgit.errors import NotLeaderError
from orchgit.model.allocation import Allocation
from orchgit.model.cluster import ClusterName
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.wire.messages import (
    AgentAllocReports,
    AgentFrame,
    AgentHeartbeat,
    AgentHello,
    AgentNodeUpdate,
    AllocDelivery,
    AllocReport,
    AllocSet,
    HeartbeatAck,
    LeaderReply,
    LeaderRequest,
    ReportsAck,
    ServerFrame,
    Welcome,
)
from orchgit.wire.methods import CONNECT_NODE, LEADER
from orchgit.wire.serve import GrpcServer

WAIT_S = 60.0


class StubServer:
    """`allocs` is what the node should know; `deliver` adds to it and tells the node."""

    def __init__(self, bind: str = "127.0.0.1:0", ttl_s: float = 10.0) -> None:
        self._bind = bind
        self.ttl_s = ttl_s
        self.answer_heartbeats = True
        self.answer_reports = True
        self.servers: list[str] = []
        self.leader = ""
        """Who is said to lead; empty: this server itself."""
        self.term = 1
        self.cluster = ClusterName()
        self.allocs: dict[str, AllocDelivery] = {}
        self.nodes: list[Node] = []
        self.frames: list[AgentFrame] = []
        self.reports: dict[str, AllocReport] = {}
        self.sessions = 0
        self._indexes = itertools.count(1)
        self._outgoing: asyncio.Queue[ServerFrame | None] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._grpc = GrpcServer(bind)

    @property
    def address(self) -> str:
        return self._grpc.address

    async def start(self) -> None:
        self._grpc = GrpcServer(self._bind)
        self._grpc.add_stream(CONNECT_NODE, self._connect)
        self._grpc.add_unary(LEADER, self._leader)
        await self._grpc.start()
        self._bind = self._grpc.address

    async def stop(self) -> None:
        self._outgoing.put_nowait(None)
        await self._grpc.stop(0.0)

    def elect(self, leader: str) -> None:
        """Another server leads from now on, in the next term."""
        self.leader, self.term = leader, self.term + 1
        self._changed.set()

    async def _leader(self, request: LeaderRequest) -> LeaderReply:
        await self.until(lambda: self.term > request.term)
        return LeaderReply(self.leader or self.address, self.term, self.servers, self.cluster)

    def deliver(self, *pairs: tuple[Allocation, Job]) -> None:
        index = next(self._indexes)
        changed = []
        for alloc, job in pairs:
            alloc.modify_index = index
            self.allocs[alloc.id] = AllocDelivery(alloc, job)
            changed.append(self.allocs[alloc.id])
        self._outgoing.put_nowait(AllocSet(index, changed, list(self.allocs)))

    def forget(self, *alloc_ids: str) -> None:
        for alloc_id in alloc_ids:
            del self.allocs[alloc_id]
        self._outgoing.put_nowait(AllocSet(next(self._indexes), [], list(self.allocs)))

    def say(self, frame: ServerFrame | None) -> None:
        """Send one frame; None ends the stream."""
        self._outgoing.put_nowait(frame)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_status(self, alloc_id: str, status: str) -> AllocReport:
        def there() -> bool:
            return alloc_id in self.reports and self.reports[alloc_id].client_status == status

        await self.until(there)
        return self.reports[alloc_id]

    async def _connect(self, frames: AsyncIterator[AgentFrame]) -> AsyncIterator[ServerFrame]:
        self.sessions += 1
        self._changed.set()
        if self.leader:
            raise NotLeaderError("cannot serve: another server leads", self.leader)
        self._outgoing = outgoing = asyncio.Queue()
        listening = asyncio.create_task(self._listen(frames, outgoing))
        try:
            while (frame := await outgoing.get()) is not None:
                yield frame
        finally:
            listening.cancel()

    async def _listen(
        self, frames: AsyncIterator[AgentFrame], outgoing: asyncio.Queue[ServerFrame | None]
    ) -> None:
        async for frame in frames:
            self.frames.append(frame)
            for answer in self._answers(frame):
                outgoing.put_nowait(answer)
            self._changed.set()
        outgoing.put_nowait(None)

    def _answers(self, frame: AgentFrame) -> list[ServerFrame]:
        match frame:
            case AgentHello():
                self.nodes.append(frame.node)
                index = next(self._indexes)
                everything = AllocSet(index, list(self.allocs.values()), list(self.allocs))
                place = (self.address, self.term, self.servers)
                welcome = Welcome("stub", self.ttl_s, *place, self.cluster)
                return [welcome, everything]
            case AgentNodeUpdate():
                self.nodes.append(frame.node)
                return []
            case AgentHeartbeat():
                ack = HeartbeatAck(self.ttl_s, self.servers)
                return [ack] if self.answer_heartbeats else []
            case AgentAllocReports():
                self.reports |= {report.alloc_id: report for report in frame.reports}
                return [ReportsAck(frame.seq)] if self.answer_reports else []
