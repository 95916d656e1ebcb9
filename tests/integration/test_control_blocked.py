"""Evaluations that wait for room, and what lets them go, on a real log and scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orchgit.model.allocation import ClientStatus
from orchgit.model.evaluation import EvalStatus
from orchgit.model.job import Job
from orchgit.model.node import NodeStatus
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.nodes import RegisterNode
from tests.integration.control_rig import Rig, agent_node, leader
from tests.integration.test_control_loops import placed
from tests.support.factories import make_evaluation, make_job


async def blocked(rig: Rig, job: Job) -> None:
    """Until an evaluation of the job waits for room."""
    key = (job.namespace, job.id)
    await rig.until("evaluations", read=lambda s: s.evaluations.blocked_of_job(*key))


async def stop(rig: Rig, job: Job) -> None:
    evaluation = make_evaluation(job)
    deletion = JobDeletion(namespace=job.namespace, job_id=job.id)
    await rig.state.propose(DeregisterJob(deletion=deletion, evaluation=evaluation))
    await rig.evaluation_ends(evaluation.id)


async def report_ended(rig: Rig, job: Job) -> None:
    with rig.store.snapshot() as snapshot:
        (held,) = snapshot.allocations.of_job(job.namespace, job.id)
    update = AllocClientUpdate(held.id, ClientStatus.COMPLETE)
    await rig.state.propose(UpdateAllocsFromClient(node_id=held.node_id, updates=[update]))


def test_new_leader_unblocks_for_a_node_that_registered_without_a_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            job = make_job()
            async with rig.worker():
                await rig.register(job)
                await blocked(rig, job)
            await rig.control.stop()
            await rig.state.propose(RegisterNode(node=agent_node(status=NodeStatus.READY)))
            await rig.control.start()
            async with rig.worker():
                await placed(rig, job, 1)

    asyncio.run(run())


def test_new_leader_unblocks_for_capacity_freed_without_a_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            small = agent_node(status=NodeStatus.READY, cpu_shares=100)
            await rig.state.propose(RegisterNode(node=small))
            first, second = make_job(), make_job()
            async with rig.worker():
                await rig.register(first)
                await placed(rig, first, 1)
                await rig.register(second)
                await blocked(rig, second)
                await stop(rig, first)
            await rig.control.stop()
            await report_ended(rig, first)
            await rig.control.start()
            async with rig.worker():
                await placed(rig, second, 1)

    asyncio.run(run())


def test_new_leader_keeps_evaluations_blocked_where_nothing_changed(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            await rig.state.propose(RegisterNode(node=agent_node(status=NodeStatus.READY)))
            job, large = make_job(), make_job(count=1000)
            async with rig.worker():
                await rig.register(job)
                await placed(rig, job, 1)
                await rig.register(large)
                await blocked(rig, large)
            await rig.restart_control()
            stats = rig.control.broker_stats()
            assert (stats["ready"], stats["blocked"]) == (0, 1)
            with rig.store.snapshot() as snapshot:
                assert len(snapshot.evaluations.of_status(EvalStatus.BLOCKED)) == 1

    asyncio.run(run())
