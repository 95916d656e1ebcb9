"""The leader's loops on a real log, store and scheduler, in a time that the tests move."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from orchgit.clock import SECOND_NS, FakeClock
from orchgit.control.evaluations.broker import BrokerLimits
from orchgit.control.leader_term import ControlConfig
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.ids import RandomIds
from orchgit.model.allocation import Allocation, ClientStatus, DesiredStatus
from orchgit.model.deployment import Deployment, DeploymentStatus
from orchgit.model.evaluation import EvalStatus, EvalTrigger
from orchgit.model.group import UpdateStrategy
from orchgit.model.job import Job
from orchgit.model.node import NodeStatus
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.services.context import UseCaseContext
from orchgit.services.deployments import pause_deployment
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import AllocReport, EvalTokenRequest
from tests.integration.control_rig import Rig, StreamAgent, agent_node, connected, leader
from tests.support.factories import (
    make_evaluation,
    make_group,
    make_job,
    make_task,
)

ROLLING = UpdateStrategy(max_parallel=1, progress_deadline_ns=600 * SECOND_NS, auto_revert=True)


async def report_health(agent: StreamAgent, healthy: bool | None, *held: Allocation) -> None:
    await agent.report(
        *(
            AllocReport(
                alloc_id=each.id,
                client_status=ClientStatus.RUNNING,
                deployment_healthy=healthy,
            )
            for each in held
        )
    )


async def placed(rig: Rig, job: Job, count: int, version: int = 0) -> list[Allocation]:
    """The live allocations of a job's version, once there are `count`."""

    def read(snapshot: Snapshot) -> list[Allocation]:
        found = [
            held
            for held in snapshot.allocations.of_job(job.namespace, job.id)
            if held.job_version == version and not held.is_terminal
        ]
        return found if len(found) >= count else []

    found: list[Allocation] = await rig.until("allocations", read=read)
    return found


async def deployment_ends(rig: Rig, job: Job, version: int) -> Deployment:
    def read(snapshot: Snapshot) -> Deployment | None:
        for deployment in snapshot.deployments.of_job(job.namespace, job.id):
            if deployment.job_version == version and not deployment.is_active:
                return deployment
        return None

    found: Deployment = await rig.until("deployments", read=read)
    return found


def changed(job: Job, command: str) -> Job:
    task = make_task(config={"command": command})
    group = msgspec.structs.replace(job.task_groups[0], tasks=[task])
    return msgspec.structs.replace(job, task_groups=[group])


def test_deployment_continues_with_healthy_allocations_and_ends_stable(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            job = make_job(count=2, update=ROLLING)
            await rig.register(job)
            await report_health(agent, True, *await placed(rig, job, 2))
            assert (await deployment_ends(rig, job, 0)).status == DeploymentStatus.SUCCESSFUL
            with rig.store.snapshot() as snapshot:
                assert snapshot.jobs.get(job.namespace, job.id).stable
            await rig.register(changed(job, "/bin/other"))
            for count in (1, 2):
                await report_health(agent, True, *await placed(rig, job, count, version=1))
            assert (await deployment_ends(rig, job, 1)).status == DeploymentStatus.SUCCESSFUL

    asyncio.run(run())


def test_unhealthy_version_fails_and_the_stable_version_runs_again(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        config = ControlConfig(heartbeats=HeartbeatLimits(grace_s=10_000))
        async with leader(tmp_path, clock, config) as rig, rig.worker():
            async with connected(rig, agent_node()) as agent:
                job = make_job(count=1, update=ROLLING)
                await rig.register(job)
                await report_health(agent, True, *await placed(rig, job, 1))
                await deployment_ends(rig, job, 0)
                await rig.evaluation_ends((await rig.register(changed(job, "/bin/broken"))).id)
                await placed(rig, job, 1, version=1)
                await clock.advance(600)
                failed = await deployment_ends(rig, job, 1)
                assert failed.status == DeploymentStatus.FAILED
                assert failed.status_description.endswith("rolling back to job version 0")
                await placed(rig, job, 1, version=2)
                with rig.store.snapshot() as snapshot:
                    again = snapshot.jobs.get(job.namespace, job.id)
                assert again.task_groups[0].tasks[0].config == job.task_groups[0].tasks[0].config

    asyncio.run(run())


def test_healthy_canaries_are_promoted_automatically(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            strategy = msgspec.structs.replace(ROLLING, canary=1, auto_promote=True)
            job = make_job(count=1, update=strategy)
            await rig.register(job)
            await report_health(agent, True, *await placed(rig, job, 1))
            await deployment_ends(rig, job, 0)
            await rig.register(changed(job, "/bin/other"))
            await report_health(agent, True, *await placed(rig, job, 1, version=1))
            assert (await deployment_ends(rig, job, 1)).status == DeploymentStatus.SUCCESSFUL
            with rig.store.snapshot() as snapshot:
                (old,) = [
                    held
                    for held in snapshot.allocations.of_job(job.namespace, job.id)
                    if held.job_version == 0
                ]
            assert old.desired_status == DesiredStatus.STOP

    asyncio.run(run())


def test_canary_groups_are_promoted_together_while_other_groups_roll(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            canary = msgspec.structs.replace(ROLLING, canary=1, auto_promote=True)
            groups = [
                make_group(name=name, count=1, update=update)
                for name, update in (("a", canary), ("b", canary), ("c", ROLLING))
            ]
            job = make_job(task_groups=groups)
            await rig.register(job)
            await report_health(agent, True, *await placed(rig, job, 3))
            await deployment_ends(rig, job, 0)
            task = make_task(config={"command": "/bin/other"})
            new = [msgspec.structs.replace(group, tasks=[task]) for group in groups]
            await rig.register(msgspec.structs.replace(job, task_groups=new))
            first = await placed(rig, job, 3, version=1)
            one = next(held for held in first if held.task_group == "a")
            await report_health(agent, True, one)
            await rig.state.writer.barrier()
            with rig.store.snapshot() as snapshot:
                states = snapshot.deployments.get(one.deployment_id).task_groups
            assert not any(state.promoted for state in states.values())
            await report_health(agent, True, *(held for held in first if held is not one))
            assert (await deployment_ends(rig, job, 1)).status == DeploymentStatus.SUCCESSFUL
            assert len(await placed(rig, job, 3, version=1)) == 3

    asyncio.run(run())


def test_paused_deployment_does_not_miss_its_deadline(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        config = ControlConfig(heartbeats=HeartbeatLimits(grace_s=10_000))
        async with leader(tmp_path, clock, config) as rig, rig.worker():
            async with connected(rig, agent_node()):
                context = UseCaseContext(rig.state, clock, RandomIds())
                job = make_job(update=ROLLING)
                await rig.register(job)
                (held,) = await placed(rig, job, 1)
                await pause_deployment(context, held.deployment_id, True)
                await clock.advance(3600)
                await pause_deployment(context, held.deployment_id, False)
                await rig.state.writer.barrier()
                await clock.advance(599)
                with rig.store.snapshot() as snapshot:
                    deployment = snapshot.deployments.get(held.deployment_id)
                assert deployment.status == DeploymentStatus.RUNNING
                await clock.advance(1)
                ended = await deployment_ends(rig, job, 0)
                assert ended.status_description.startswith("Failed due to progress deadline")

    asyncio.run(run())


def test_deployment_of_a_purged_job_is_canceled_and_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            job = make_job(update=ROLLING)
            await rig.register(job)
            (held,) = await placed(rig, job, 1)
            stop = make_evaluation(job)
            deletion = JobDeletion(namespace=job.namespace, job_id=job.id, purge=True)
            await rig.state.propose(DeregisterJob(deletion=deletion, evaluation=stop))
            ended = await deployment_ends(rig, job, 0)
            assert ended.status == DeploymentStatus.CANCELLED
            await agent.report(AllocReport(alloc_id=held.id, client_status=ClientStatus.RUNNING))
            await agent.report(AllocReport(alloc_id=held.id, client_status=ClientStatus.COMPLETE))
            await rig.evaluation_ends(stop.id)
            await rig.control.collect_garbage()
            with rig.store.snapshot() as snapshot:
                assert not snapshot.deployments.all()
                assert not snapshot.allocations.all()

    asyncio.run(run())


def test_forced_collection_deletes_all_garbage_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            leader(tmp_path, FakeClock()) as rig,
            rig.worker(),
            connected(rig, agent_node()) as agent,
        ):
            stopped, kept = make_job(), make_job()
            for job in (stopped, kept):
                await rig.evaluation_ends((await rig.register(job)).id)
            (held,) = await placed(rig, stopped, 1)
            stop = make_evaluation(stopped)
            deletion = JobDeletion(namespace=stopped.namespace, job_id=stopped.id)
            await rig.state.propose(DeregisterJob(deletion=deletion, evaluation=stop))
            await rig.evaluation_ends(stop.id)
            await agent.report(AllocReport(alloc_id=held.id, client_status=ClientStatus.COMPLETE))
            await rig.control.collect_garbage()
            with rig.store.snapshot() as snapshot:
                assert [job.id for job in snapshot.jobs.all()] == [kept.id]
                assert snapshot.allocations.get(held.id) is None
                assert len(snapshot.allocations.of_job(kept.namespace, kept.id)) == 1

    asyncio.run(run())


def test_evaluation_past_its_delivery_limit_fails_and_gets_a_follow_up(tmp_path: Path) -> None:
    async def run() -> None:
        config = ControlConfig(broker=BrokerLimits(delivery_limit=1))
        async with leader(tmp_path, config=config) as rig:
            evaluation = await rig.register(make_job())
            delivery = await rig.dequeue()
            await rig.nack(evaluation.id, delivery.token)
            failed = await rig.evaluation_ends(evaluation.id)
            assert failed.status == EvalStatus.FAILED
            with rig.store.snapshot() as snapshot:
                follow_up = snapshot.evaluations.get(failed.next_eval)
            assert follow_up.triggered_by == EvalTrigger.FAILED_FOLLOW_UP
            assert follow_up.wait_until > rig.clock.now_ns()

    asyncio.run(run())


def test_superseded_evaluations_are_canceled_after_an_ack(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            job = make_job()
            evaluations = [await rig.register(changed(job, f"/bin/{n}")) for n in range(4)]
            delivery = await rig.dequeue()
            assert delivery.evaluation.id == evaluations[0].id
            await rig.control.ack(EvalTokenRequest(delivery.evaluation.id, delivery.token))
            for needless in evaluations[1:3]:
                assert (await rig.evaluation_ends(needless.id)).status == EvalStatus.CANCELLED
            last = await rig.dequeue()
            assert last.evaluation.id == evaluations[3].id
            assert last.wait_index >= evaluations[3].modify_index

    asyncio.run(run())


def test_node_that_is_down_without_allocations_is_collected(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            node = agent_node()
            async with connected(rig, node):
                pass
            await clock.advance(60)
            await rig.until("nodes", read=lambda s: s.nodes.get(node.id).status == NodeStatus.DOWN)
            await rig.control.collect_garbage()
            with rig.store.snapshot() as snapshot:
                assert snapshot.nodes.get(node.id) is None

    asyncio.run(run())
