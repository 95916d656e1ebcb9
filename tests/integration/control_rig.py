"""A leader on a real log and store, with its RPC port, and workers and agents that talk to it.

The scheduler of these tests puts every missing allocation on the first ready node: what is tested
is the way to it and from it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orchgit.clock import Clock, SystemClock
from orchgit.control.leader import Control
from orchgit.control.leader_port import RpcLeader
from orchgit.control.reign import ControlConfig
from orchgit.control.worker_loop import WorkerLoop
from orchgit.ids import RandomIds
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.job import Job
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import AllocStop, Plan
from orchgit.model.resources import NetworkResource
from orchgit.replication.commands import JobUpsert, RegisterJob, RegisterNode
from orchgit.replication.replicated import ReplicatedState
from orchgit.rpc.serve import RpcServer
from orchgit.scheduler.outcome import Outcome
from orchgit.services.services import NodeServices
from orchgit.services.world import World
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
from orchgit.wire.channel import LeaderChannel
from tests.support.factories import make_evaluation, make_node, make_placements
from tests.support.state import running_state

TYPES = ("service", "batch", "system", "sysbatch")


class StoreViews:
    """Snapshots of the leader's own store, as the worker loop asks for views."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def reach(self, index: int, timeout_s: float) -> None:
        (await self._store.snapshot_min_index(index, timeout_s)).close()

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        with self._store.snapshot() as snapshot:
            yield snapshot


def first_node_schedule(evaluation: Evaluation, snapshot: Any, now_ns: int, seed: int) -> Outcome:
    """Place what is missing on the first ready node, stop what is too much."""
    assert isinstance(snapshot, Snapshot)
    job = snapshot.job(evaluation.namespace, evaluation.job_id)
    nodes = [node for node in snapshot.nodes() if node.is_ready][:1]
    live = [
        held
        for held in snapshot.allocations_by_job(evaluation.namespace, evaluation.job_id)
        if not held.is_terminal
    ]
    done = msgspec.structs.replace(evaluation, status=EvalStatus.COMPLETE)
    wanted = job.task_groups[0].count if job is not None and not job.stop else 0
    plan = _plan(evaluation, job, nodes, live, wanted)
    if wanted > len(live) and not nodes:
        blocked = msgspec.structs.replace(
            evaluation,
            id=RandomIds().new(),
            status=EvalStatus.BLOCKED,
            previous_eval=evaluation.id,
            snapshot_index=snapshot.index,
        )
        return Outcome(msgspec.structs.replace(done, blocked_eval=blocked.id), blocked=blocked)
    return Outcome(done, plan=None if plan.is_no_op else plan)


def _plan(
    evaluation: Evaluation, job: Job | None, nodes: list[Node], live: list[Allocation], wanted: int
) -> Plan:
    plan = Plan(
        eval_id=evaluation.id,
        namespace=evaluation.namespace,
        job_id=evaluation.job_id,
        job_version=job.version if job else 0,
        priority=evaluation.priority,
    )
    if job is not None and nodes and wanted > len(live):
        ids = [RandomIds().new() for _ in range(wanted - len(live))]
        plan.placements = [
            make_placements(job, nodes, len(ids), eval_id=evaluation.id, alloc_ids=ids)
        ]
    plan.stops = [AllocStop(alloc_id=held.id, node_id=held.node_id) for held in live[wanted:]]
    return plan


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

    async def add_node(self, node: Node) -> None:
        await self.state.propose(RegisterNode(node=node))

    async def until(self, *targets: str, read: Any, timeout_s: float = 10.0) -> Any:
        """The first truthy `read(snapshot)`, looked at whenever one of the tables changes."""

        def look() -> tuple[Any, int]:
            with self.store.snapshot() as snapshot:
                return read(snapshot) or None, snapshot.index

        found = await self.store.watch.until(look, targets, SystemClock(), timeout_s)
        assert found is not None, f"nothing came of waiting for {targets}"
        return found

    async def evaluation_ends(self, eval_id: str) -> Evaluation:
        def ended(snapshot: Snapshot) -> Evaluation | None:
            evaluation = snapshot.evaluation(eval_id)
            return evaluation if evaluation is not None and evaluation.is_terminal else None

        found = await self.until("evaluations", read=ended)
        assert isinstance(found, Evaluation)
        return found

    @contextlib.asynccontextmanager
    async def worker(self, schedule: Any = first_node_schedule) -> AsyncIterator[WorkerLoop]:
        """A worker in this process that talks to the leader over its RPC port."""
        channel = LeaderChannel([self.rpc.address])
        loop = WorkerLoop(
            RpcLeader(channel, "worker"),
            StoreViews(self.store),
            schedule,
            self.clock,
            RandomIds(),
            TYPES,
        )
        task = asyncio.create_task(loop.run())
        try:
            yield loop
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await channel.close()


@contextlib.asynccontextmanager
async def leader(
    directory: Path, clock: Clock | None = None, config: ControlConfig | None = None
) -> AsyncIterator[Rig]:
    clock = clock or SystemClock()
    async with running_state(directory, clock) as state:
        control = Control(state, clock, RandomIds(), config)
        services = NodeServices(World(state, clock, RandomIds()))
        rpc = RpcServer(services, control, state.store, "127.0.0.1:0", server_id="server-1")
        await control.start()
        await rpc.start()
        try:
            await control.ready()
            yield Rig(state, control, rpc, clock)
        finally:
            await rpc.stop()
            await control.stop()
