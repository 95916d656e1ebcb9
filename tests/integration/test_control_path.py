"""From a registered job to its allocations at the agent, over the real log, store and RPC."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from orchgit.model.node import Node
from orchgit.wire import methods
from orchgit.wire.channel import Channel
from orchgit.wire.messages import (
    AgentAllocReports,
    AgentFrame,
    AgentHello,
    AllocReport,
    AllocSet,
    ReportsAck,
    ServerFrame,
    Welcome,
)
from tests.integration.control_rig import Rig, agent_node, leader
from tests.support.factories import make_job


class StreamAgent:
    """The agent's end of a node stream, by hand."""

    def __init__(self, rig: Rig, node: Node) -> None:
        self.node = node
        self._channel = Channel(rig.rpc.address)
        self._out: asyncio.Queue[AgentFrame | None] = asyncio.Queue()
        self.frames: AsyncIterator[ServerFrame] = self._channel.stream(
            methods.CONNECT_NODE, self._send()
        )
        self._seq = 0

    async def _send(self) -> AsyncIterator[AgentFrame]:
        while (frame := await self._out.get()) is not None:
            yield frame

    async def hello(self) -> Welcome:
        self._out.put_nowait(AgentHello(node=self.node))
        welcome = await anext(self.frames)
        assert isinstance(welcome, Welcome)
        return welcome

    def report(self, *reports: AllocReport) -> None:
        self._seq += 1
        self._out.put_nowait(AgentAllocReports(seq=self._seq, reports=list(reports)))

    async def next_of(self, kind: type[ServerFrame]) -> ServerFrame:
        async for frame in self.frames:
            if isinstance(frame, kind):
                return frame
        raise AssertionError("the stream ended")

    async def set_with_changes(self) -> AllocSet:
        while True:
            frame = await self.next_of(AllocSet)
            assert isinstance(frame, AllocSet)
            if frame.changed:
                return frame

    async def close(self) -> None:
        self._out.put_nowait(None)
        await self._channel.close()


@contextlib.asynccontextmanager
async def connected(rig: Rig, node: Node) -> AsyncIterator[StreamAgent]:
    agent = StreamAgent(rig, node)
    try:
        await agent.hello()
        agent.report()
        await agent.next_of(ReportsAck)
        yield agent
    finally:
        await agent.close()


def test_a_registered_job_reaches_its_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            node = agent_node()
            async with connected(rig, node) as agent:
                job = make_job(count=2)
                evaluation = await rig.register(job)
                sent = await agent.set_with_changes()
                assert [each.alloc.job_id for each in sent.changed] == [job.id] * 2
                assert sent.changed[0].job.id == job.id
                assert sorted(sent.wanted) == sorted(each.alloc.id for each in sent.changed)
                await rig.evaluation_ends(evaluation.id)

    asyncio.run(run())
