"""What becomes of allocations and nodes when nodes are lost, in a time that the tests move."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orchgit.clock import FakeClock
from orchgit.model.allocation import ClientStatus
from orchgit.model.base import NS_PER_S
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.group import DisconnectStrategy
from orchgit.model.node import NodeStatus
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.wire.messages import AllocReport
from tests.integration.control_rig import Rig, agent_node, connected, leader
from tests.integration.test_control_loops import placed
from tests.support.factories import make_evaluation, make_group, make_job


async def until_down(rig: Rig, clock: FakeClock, node_id: str) -> None:
    await clock.advance(60)
    await rig.until("nodes", read=lambda s: s.nodes.get(node_id).status == NodeStatus.DOWN)


def test_allocations_of_a_purged_job_on_a_lost_node_are_lost(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            node = agent_node()
            async with connected(rig, node) as agent:
                job = make_job()
                await rig.register(job)
                (held,) = await placed(rig, job, 1)
                await agent.report(
                    AllocReport(alloc_id=held.id, client_status=ClientStatus.RUNNING)
                )
            evaluation = make_evaluation(job)
            deletion = JobDeletion(namespace=job.namespace, job_id=job.id, purge=True)
            await rig.state.propose(DeregisterJob(deletion=deletion, evaluation=evaluation))
            await rig.evaluation_ends(evaluation.id)
            await until_down(rig, clock, node.id)
            await rig.until(
                "allocations",
                read=lambda s: s.allocations.get(held.id).client_status == ClientStatus.LOST,
            )
            await rig.control.collect_garbage()
            with rig.store.snapshot() as snapshot:
                assert snapshot.allocations.get(held.id) is None
                assert snapshot.nodes.get(node.id) is None

    asyncio.run(run())


def test_lost_node_is_collected_while_its_service_runs_elsewhere(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            lost, kept = agent_node(), agent_node()
            async with connected(rig, lost):
                job = make_job(count=2)
                await rig.register(job)
                first = await placed(rig, job, 2)
            await until_down(rig, clock, lost.id)
            async with connected(rig, kept):
                await rig.until(
                    "allocations",
                    read=lambda s: len(s.allocations.of_node(kept.id, terminal=False)) == 2,
                )
                await rig.control.collect_garbage()
                with rig.store.snapshot() as snapshot:
                    assert snapshot.nodes.get(lost.id) is None
                    assert all(snapshot.allocations.get(held.id) is None for held in first)
                    assert len(snapshot.allocations.of_job(job.namespace, job.id)) == 2

    asyncio.run(run())


def test_disconnected_node_goes_down_when_no_allocation_may_wait_longer(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            node = agent_node()
            async with connected(rig, node) as agent:
                waits = DisconnectStrategy(lost_after_ns=600 * NS_PER_S)
                groups = [make_group(name=name, disconnect=waits) for name in ("one", "two")]
                job = make_job(task_groups=groups)
                await rig.register(job)
                held = await placed(rig, job, 2)
                await agent.report(
                    *(AllocReport(each.id, client_status=ClientStatus.RUNNING) for each in held)
                )
            await clock.advance(60)
            await rig.until(
                "nodes", read=lambda s: s.nodes.get(node.id).status == NodeStatus.DISCONNECTED
            )
            await rig.until(
                "allocations",
                read=lambda s: all(
                    s.allocations.get(each.id).client_status == ClientStatus.UNKNOWN
                    for each in held
                ),
            )
            with rig.store.snapshot() as snapshot:
                evaluations = snapshot.evaluations.of_job(job.namespace, job.id)
            of_node = [each for each in evaluations if each.triggered_by == EvalTrigger.NODE_UPDATE]
            assert len(of_node) == 1
            for _ in range(30):  # each look of the heartbeats waits for what they recorded before
                await clock.advance(30)
                await rig.state.writer.barrier()
            await rig.until("nodes", read=lambda s: s.nodes.get(node.id).status == NodeStatus.DOWN)
            await rig.until(
                "allocations",
                read=lambda s: all(s.allocations.get(each.id).is_client_terminal for each in held),
            )

    asyncio.run(run())
