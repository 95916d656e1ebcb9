"""Many workers and jobs on too little room: what is committed fits, and all comes to rest."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from orchgit.control.leader_term import ControlConfig
from orchgit.control.plans.node_rejections import RejectionLimits
from orchgit.errors import ConflictError
from orchgit.model.node import NodeStatus
from orchgit.model.plan import AllocStop, Plan, PlanResult
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.wire.messages import EvalsRequest
from tests.integration.control_rig import Rig, agent_node, leader
from tests.support.factories import make_job, make_placements


async def hold(rig: Rig) -> Plan:
    """The start of a plan of some job, with its evaluation held."""
    await rig.register(make_job())
    delivery = await rig.dequeue()
    evaluation = delivery.evaluation
    return Plan(
        eval_id=evaluation.id,
        eval_token=delivery.token,
        namespace=evaluation.namespace,
        job_id=evaluation.job_id,
    )


async def ready_node(rig: Rig, **fields: object) -> str:
    node = agent_node(status=NodeStatus.READY, **fields)
    await rig.state.propose(RegisterNode(node=node))
    return node.id


def test_concurrent_workers_never_over_commit_and_finish_every_evaluation(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, contextlib.AsyncExitStack() as workers:
            for _ in range(3):
                await ready_node(rig, cpu_shares=1000)
            evaluations = [await rig.register(make_job(count=4)) for _ in range(12)]
            for _ in range(4):
                await workers.enter_async_context(rig.worker())
            for evaluation in evaluations:
                await rig.evaluation_ends(evaluation.id)
            with rig.store.snapshot() as snapshot:
                placed = snapshot.allocations.all()
            assert len(placed) == 30
            async with asyncio.timeout(60):
                while rig.control.broker_stats()["blocked"] < 4:  # the leader's loops hear of it
                    await asyncio.sleep(0)

    asyncio.run(run())


def test_concurrent_plans_for_one_node_are_committed_until_it_is_full(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node_id = await ready_node(rig, cpu_shares=250)
            plans = [await hold(rig) for _ in range(4)]
            with rig.store.snapshot() as snapshot:
                node = snapshot.nodes.get(node_id)
                for plan in plans:
                    job = snapshot.jobs.get(plan.namespace, plan.job_id)
                    plan.placements = [make_placements(job, [node])]
            results = await asyncio.gather(*(rig.submit_plan(plan) for plan in plans))
            assert sum(bool(result.placements) for result in results) == 2
            newest = max(result.alloc_index for result in results)
            for result in results:
                assert bool(result.placements) == (result.refresh_index == 0)
                assert result.placements or result.refresh_index >= newest

    asyncio.run(run())


def test_plan_uses_capacity_freed_by_the_plan_before(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node_id = await ready_node(rig, cpu_shares=150)
            first, second, third = [await hold(rig) for _ in range(3)]
            with rig.store.snapshot() as snapshot:
                node = snapshot.nodes.get(node_id)
                jobs = [snapshot.jobs.get(p.namespace, p.job_id) for p in (first, second, third)]
            first.placements = [make_placements(jobs[0], [node])]
            done = await rig.submit_plan(first)
            second.stops = [AllocStop(alloc_id=done.placements[0].alloc_ids[0], node_id=node_id)]
            third.placements = [make_placements(jobs[2], [node])]
            answers = [rig.submit_plan(plan) for plan in (second, third)]
            results: list[PlanResult] = await asyncio.gather(*answers)
            assert [result.refresh_index for result in results] == [0, 0]
            assert len(results[1].placements[0]) == 1

    asyncio.run(run())


def test_plan_counts_in_flight_plans_of_its_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node_id = await ready_node(rig, cpu_shares=250)
            held, adding, replacing = [await hold(rig) for _ in range(3)]
            with rig.store.snapshot() as snapshot:
                node = snapshot.nodes.get(node_id)
                jobs = [snapshot.jobs.get(p.namespace, p.job_id) for p in (held, adding, replacing)]
            held.placements = [make_placements(jobs[0], [node])]
            (old,) = (await rig.submit_plan(held)).placements
            adding.placements = [make_placements(jobs[1], [node])]
            replacing.stops = [AllocStop(alloc_id=old.alloc_ids[0], node_id=node_id)]
            replacing.placements = [make_placements(jobs[2], [node], 2)]
            answers = [rig.submit_plan(plan) for plan in (adding, replacing)]
            added, replaced = await asyncio.gather(*answers)
            assert added.placements
            assert replaced.rejected_nodes == [node_id]

    asyncio.run(run())


def test_node_with_many_rejected_plans_becomes_ineligible(tmp_path: Path) -> None:
    limits = RejectionLimits(enabled=True, threshold=2)

    async def run() -> None:
        async with leader(tmp_path, config=ControlConfig(rejections=limits)) as rig:
            node_id = await ready_node(rig, cpu_shares=50)
            for rejections, eligibility in ((1, "eligible"), (2, "ineligible")):
                plan = await hold(rig)
                with rig.store.snapshot() as snapshot:
                    job = snapshot.jobs.get(plan.namespace, plan.job_id)
                    plan.placements = [make_placements(job, [snapshot.nodes.get(node_id)])]
                result = await rig.submit_plan(plan)
                assert result.rejected_nodes == [node_id]
                with rig.store.snapshot() as snapshot:
                    node = snapshot.nodes.get(node_id)
                assert node.scheduling_eligibility == eligibility, f"after {rejections}"
            assert "plan rejections" in node.events[-1].message

    asyncio.run(run())


def test_plan_of_an_evaluation_that_is_not_held_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            plan = await hold(rig)
            await rig.nack(plan.eval_id, plan.eval_token)
            with pytest.raises(ConflictError):
                await rig.submit_plan(plan)
            request = EvalsRequest(eval_id=plan.eval_id, token=plan.eval_token)
            with pytest.raises(ConflictError):
                await rig.control.store_evaluations(request)

    asyncio.run(run())


def test_plan_of_a_purged_and_reregistered_job_is_made_again_at_once(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node_id = await ready_node(rig)
            plan = await hold(rig)
            with rig.store.snapshot() as snapshot:
                job = snapshot.jobs.get(plan.namespace, plan.job_id)
                plan.placements = [make_placements(job, [snapshot.nodes.get(node_id)])]
                plan.job_create_index = job.create_index
            purge = JobDeletion(job.namespace, job.id, purge=True)
            await rig.state.propose(DeregisterJob(deletion=purge))
            await rig.register(job)
            result = await rig.submit_plan(plan)
            assert (result.placements, result.alloc_index) == ([], 0)
            assert result.refresh_index == rig.store.watch.applied_index

    asyncio.run(run())
