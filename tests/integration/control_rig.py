"""A leader on a real log and store, with its RPC port, and workers and agents that talk to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from orchgit.clock import Clock, FakeClock, SystemClock
from orchgit.control.evaluations.broker import BrokerLimits
from orchgit.control.leader import Control
from orchgit.control.leader_client.remote import RemoteLeader
from orchgit.control.leader_term import ControlConfig
from orchgit.control.workers.loop import WorkerLoop
from orchgit.control.workers.process import StoreViews
from orchgit.ids import RandomIds
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import Plan, PlanResult
from orchgit.model.resources import NetworkResource
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState
from orchgit.rpc.serve import RpcServer, RpcSettings
from orchgit.scheduler.schedule import schedule
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.sealing import new_key
from orchgit.services.services import Services
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from orchgit.wire import methods
from orchgit.wire.channel import Channel, LeaderChannel
from orchgit.wire.messages import (
    AgentAllocReports,
    AgentFrame,
    AgentHello,
    AllocReport,
    AllocSet,
    DequeuedEvaluation,
    DequeueRequest,
    EvalTokenRequest,
    ReportsAck,
    ServerFrame,
    SubmitPlanRequest,
    Welcome,
)
from tests.support.factories import make_evaluation, make_node
from tests.support.state import running_state

Frame = TypeVar("Frame")
TYPES = ("service", "batch", "system", "sysbatch")


def agent_node(**fields: Any) -> Node:
    """A node as an agent first shows it, with the network that every group needs."""
    made = make_node(**{"status": NodeStatus.INITIALIZING, **fields})
    made.node_resources.networks = [
        NetworkResource(mode="host", device="lo", ip="127.0.0.1", cidr="127.0.0.1/32")
    ]
    return made


@dataclass
class Rig:
    """Everything a test touches."""

    state: ReplicatedState
    control: Control
    rpc: RpcServer
    clock: Clock

    @property
    def store(self) -> Store:
        return self.state.store

    async def register(self, job: Job) -> Evaluation:
        """Register a job with its evaluation; returns the evaluation."""
        evaluation = make_evaluation(job)
        await self.state.propose(RegisterJob(upsert=JobUpsert(job), evaluation=evaluation))
        return evaluation

    async def register_parent(self, job: Job) -> None:
        """Register a job that runs nothing itself, and let the leader's loops note it."""
        await self.state.propose(RegisterJob(upsert=JobUpsert(job)))
        if isinstance(self.clock, FakeClock):
            await self.clock.advance(0)

    async def dequeue(self) -> DequeuedEvaluation:
        """The next evaluation of a service."""
        reply = await self.control.dequeue(DequeueRequest(types=["service"], timeout_s=30.0))
        (delivery,) = reply.deliveries
        return delivery

    async def nack(self, eval_id: str, token: str) -> None:
        await self.control.nack(EvalTokenRequest(eval_id=eval_id, token=token))

    async def submit_plan(self, plan: Plan) -> PlanResult:
        return (await self.control.submit_plan(SubmitPlanRequest(plan))).result

    async def restart_control(self) -> None:
        """Lose the leadership and gain it again: everything in memory is built anew."""
        await self.control.stop()
        await self.control.start()
        await self.control.ready()

    async def until(self, *targets: str, read: Any, timeout_s: float = 60.0) -> Any:
        """The first truthy `read(snapshot)`, looked at whenever one of the tables changes."""

        def look() -> tuple[Any, int]:
            with self.store.snapshot() as snapshot:
                return read(snapshot) or None, snapshot.index

        found = await self.store.watch.until(look, targets, SystemClock(), timeout_s)
        assert found is not None, f"nothing came of waiting for {targets}"
        return found

    async def evaluation_ends(self, eval_id: str) -> Evaluation:
        def ended(snapshot: Snapshot) -> Evaluation | None:
            evaluation = snapshot.evaluations.get(eval_id)
            return evaluation if evaluation is not None and evaluation.is_terminal else None

        found = await self.until("evaluations", read=ended)
        assert isinstance(found, Evaluation)
        return found

    @contextlib.asynccontextmanager
    async def worker(self) -> AsyncIterator[WorkerLoop]:
        """A worker in this process that talks to the leader over its RPC port."""
        channel = LeaderChannel([self.rpc.address])
        reader = Store.open_reader(self.store.path)
        loop = WorkerLoop(
            RemoteLeader(channel),
            StoreViews(reader),
            schedule,
            self.clock,
            RandomIds(),
            DequeueRequest(types=list(TYPES), worker_id="worker"),
        )
        task = asyncio.create_task(loop.run())
        try:
            yield loop
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await channel.close()
            reader.close()


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

    def send(self, frame: AgentFrame) -> None:
        self._out.put_nowait(frame)

    async def hello(self) -> Welcome:
        self.send(AgentHello(node=self.node))
        welcome = await anext(self.frames)
        assert isinstance(welcome, Welcome)
        return welcome

    async def report(self, *reports: AllocReport) -> None:
        """Send reports and wait until they are applied."""
        self._seq += 1
        self.send(AgentAllocReports(seq=self._seq, reports=list(reports)))
        while (await self.next_of(ReportsAck)).seq != self._seq:
            pass

    async def next_of(self, kind: type[Frame]) -> Frame:
        async with asyncio.timeout(60):
            async for frame in self.frames:
                if isinstance(frame, kind):
                    return frame
        raise AssertionError("the stream ended")

    async def changes(self) -> AllocSet:
        """The next set with changed allocations in it."""
        while not (frame := await self.next_of(AllocSet)).changed:
            pass
        return frame

    async def close(self) -> None:
        self._out.put_nowait(None)
        await self._channel.close()


@contextlib.asynccontextmanager
async def connected(rig: Rig, node: Node) -> AsyncIterator[StreamAgent]:
    """An agent that has reported everything: its node is ready."""
    agent = StreamAgent(rig, node)
    try:
        await agent.hello()
        await agent.report()
        yield agent
    finally:
        await agent.close()


def directory_of(state: ReplicatedState) -> ServerDirectory:
    """Of a server that is alone."""
    record = ServerRecord(address=state.cluster.address, rpc_address="127.0.0.1:0")
    return ServerDirectory(state, SystemClock(), lambda: record)


@contextlib.asynccontextmanager
async def leader(
    directory: Path, clock: Clock | None = None, config: ControlConfig | None = None
) -> AsyncIterator[Rig]:
    config = config or ControlConfig()
    if clock is not None:
        # Moving the clock must not end the hold of a worker that works in real time.
        config = replace(config, broker=BrokerLimits(nack_timeout_ns=10**15))
    clock = clock or SystemClock()
    async with running_state(directory, clock) as state:
        control = Control(state, clock, RandomIds(), config)
        context = UseCaseContext(state, clock, RandomIds())
        services = Services(context, Keyring(context, new_key()))
        rpc = RpcServer(
            RpcSettings(bind="127.0.0.1:0", server_id="server-1"),
            *(services, control, state.store, directory_of(state)),
        )
        await control.start()
        await rpc.start()
        try:
            await control.ready()
            yield Rig(state, control, rpc, clock)
        finally:
            await rpc.stop()
            await control.stop()
