"""A UseCaseContext over a real log and store, with a clock and ids that tests control."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from orchgit.clock import FakeClock
from orchgit.ids import SequentialIds
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.plan import PlanResult
from orchgit.model.resources import NetworkResource
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.replication.commands.nodes import RegisterNode, UpdateNodeStatus
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.register import register_job
from tests.support.factories import make_node, make_placements
from tests.support.state import running_state

T = TypeVar("T")


@asynccontextmanager
async def running_context(directory: Path) -> AsyncIterator[UseCaseContext]:
    clock, ids = FakeClock(), SequentialIds()
    async with running_state(directory, clock, ids) as state:
        yield UseCaseContext(state, clock, ids)


def with_context(work: Callable[[UseCaseContext], Awaitable[T]]) -> T:
    """Run a test's coroutine function on a fresh context."""

    async def run() -> T:
        with tempfile.TemporaryDirectory() as directory:
            async with running_context(Path(directory)) as context:
                return await work(context)

    return asyncio.run(run())


async def ready_node(context: UseCaseContext, **fields: object) -> Node:
    """A node that has registered, reported and become ready."""
    node = make_node(**fields)
    node.node_resources.networks = [NetworkResource(mode="host", device="lo", ip="127.0.0.1")]
    await context.propose(RegisterNode(node=node))
    await context.propose(UpdateNodeStatus(node_id=node.id, status="ready"))
    await NodeReports(context, node.id).take([])
    with context.snapshot() as snapshot:
        stored = snapshot.nodes.get(node.id)
    assert stored is not None
    return stored


async def placed_job(
    context: UseCaseContext, job: Job, nodes: list[Node], status: str = "running"
) -> list[str]:
    """Register `job`, place one allocation of it per node, and have the agents report `status`."""
    await register_job(context, job)
    placements = make_placements(job, nodes)
    await context.propose(
        ApplyPlan(
            namespace=job.namespace,
            job_id=job.id,
            job_version=0,
            eval_id=placements.eval_id,
            result=PlanResult(placements=[placements]),
        )
    )
    for alloc_id, node_id in zip(placements.alloc_ids, placements.node_ids, strict=True):
        await NodeReports(context, node_id).take([AllocClientUpdate(alloc_id, status)])
    return placements.alloc_ids
