"""From a registered job to its allocations at the agent, over the real log, store and RPC."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orchgit.clock import FakeClock, SystemClock
from orchgit.control.leader import Control
from orchgit.errors import InvalidInputError, NotLeaderError, UnavailableError
from orchgit.ids import RandomIds
from orchgit.model.allocation import ClientStatus, DesiredStatus
from orchgit.model.cluster import ClusterName
from orchgit.model.evaluation import EvalStatus
from orchgit.model.node import NodeStatus
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import (
    AgentHeartbeat,
    AgentHello,
    AgentNodeUpdate,
    AllocReport,
    DequeueRequest,
    HeartbeatAck,
    Refused,
    Welcome,
)
from tests.integration.control_rig import Rig, StreamAgent, agent_node, connected, leader
from tests.support.factories import make_evaluation, make_group, make_job, make_task


def big_job(cpu: int = 3000, **fields: object) -> object:
    """A job of which only one fits on a node of these tests."""
    task = make_task()
    task.resources.cpu = cpu
    return make_job(task_groups=[make_group(tasks=[task])], **fields)


def test_registered_job_reaches_its_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            job = make_job(count=2)
            evaluation = await rig.register(job)
            sent = await agent.changes()
            assert [each.alloc.job_id for each in sent.changed] == [job.id] * 2
            assert sent.changed[0].job.id == job.id
            assert sorted(sent.wanted) == sorted(each.alloc.id for each in sent.changed)
            ended = await rig.evaluation_ends(evaluation.id)
            assert ended.status == EvalStatus.COMPLETE

    asyncio.run(run())


def test_stopped_job_is_stopped_at_its_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            job = make_job()
            await rig.register(job)
            await agent.changes()
            deletion = JobDeletion(namespace=job.namespace, job_id=job.id)
            await rig.state.propose(
                DeregisterJob(deletion=deletion, evaluation=make_evaluation(job))
            )
            sent = await agent.changes()
            assert sent.changed[0].alloc.desired_status == DesiredStatus.STOP

    asyncio.run(run())


def test_blocked_job_is_placed_when_a_node_registers(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            ended = await rig.evaluation_ends((await rig.register(make_job())).id)
            assert ended.blocked_eval
            async with connected(rig, agent_node()) as agent:
                await agent.changes()
                blocked = await rig.evaluation_ends(ended.blocked_eval)
                assert blocked.status == EvalStatus.COMPLETE

    asyncio.run(run())


def test_blocked_job_is_placed_when_another_job_ends(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker(), connected(rig, agent_node()) as agent:
            await rig.register(big_job(type="batch"))
            first = (await agent.changes()).changed[0].alloc
            second = big_job()
            evaluation = await rig.register(second)
            assert (await rig.evaluation_ends(evaluation.id)).failed_tg_allocs
            await agent.report(AllocReport(alloc_id=first.id, client_status=ClientStatus.COMPLETE))
            assert (await agent.changes()).changed[-1].alloc.job_id == second.id

    asyncio.run(run())


def test_new_leader_continues_pending_and_blocked_evaluations(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            async with rig.worker():
                blocked = await rig.evaluation_ends((await rig.register(make_job())).id)
            pending = await rig.register(make_job())
            await rig.restart_control()
            async with rig.worker(), connected(rig, agent_node()):
                await rig.evaluation_ends(pending.id)
                await rig.evaluation_ends(blocked.blocked_eval)

    asyncio.run(run())


def test_server_that_is_not_leader_raises_not_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            idle = Control(rig.state, SystemClock(), RandomIds())
            with pytest.raises(NotLeaderError):
                await idle.dequeue(DequeueRequest(types=["service"], timeout_s=1.0))
            with pytest.raises(NotLeaderError):
                idle.heartbeat("node")
            assert idle.broker_stats() == {}

    asyncio.run(run())


def node_status(rig: Rig, node_id: str) -> str:
    with rig.store.snapshot() as snapshot:
        node = snapshot.nodes.get(node_id)
    assert node is not None
    return node.status


def test_silent_node_goes_down_and_is_ready_again_after_its_report(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            node = agent_node()
            async with connected(rig, node) as agent:
                assert node_status(rig, node.id) == NodeStatus.READY
                job = make_job()
                await rig.register(job)
                placed = (await agent.changes()).changed[0].alloc

                def lost(snapshot: Snapshot) -> bool:
                    held = snapshot.allocations.get(placed.id)
                    return held is not None and held.client_status == ClientStatus.LOST

                await clock.advance(60)
                await rig.until(
                    "nodes", read=lambda s: s.nodes.get(node.id).status == NodeStatus.DOWN
                )
                await rig.until("allocations", read=lost)
                agent.send(AgentHeartbeat())
                with pytest.raises(UnavailableError):
                    await agent.next_of(HeartbeatAck)
            again = StreamAgent(rig, node)
            await again.hello()
            assert node_status(rig, node.id) == NodeStatus.INITIALIZING
            await again.report()
            assert node_status(rig, node.id) == NodeStatus.READY
            await again.close()

    asyncio.run(run())


def test_heartbeats_keep_a_node_ready(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            node = agent_node()
            async with connected(rig, node) as agent:
                for _ in range(8):
                    await clock.advance(9)
                    agent.send(AgentHeartbeat())
                    assert (await agent.next_of(HeartbeatAck)).heartbeat_ttl_s >= 10
                assert node_status(rig, node.id) == NodeStatus.READY

    asyncio.run(run())


def test_newer_stream_of_a_node_ends_the_older(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node = agent_node()
            async with connected(rig, node) as older, connected(rig, node):
                with pytest.raises(UnavailableError, match="newer stream"):
                    await older.next_of(HeartbeatAck)
                assert rig.rpc.nodes.connected == {node.id}

    asyncio.run(run())


def test_stream_that_does_not_begin_with_hello_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            agent = StreamAgent(rig, agent_node())
            agent.send(AgentHeartbeat())
            with pytest.raises(InvalidInputError, match="hello"):
                await agent.next_of(HeartbeatAck)
            await agent.close()

    asyncio.run(run())


def test_invalid_node_update_is_refused_and_the_stream_continues(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            node = agent_node()
            async with connected(rig, node) as agent:
                agent.send(AgentNodeUpdate(node=agent_node(id=node.id, name="")))
                assert "name missing" in (await agent.next_of(Refused)).message
                agent.send(AgentHeartbeat())
                await agent.next_of(HeartbeatAck)

    asyncio.run(run())


def test_node_of_another_cluster_only_receives_this_clusters_id(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig:
            agent = StreamAgent(rig, agent_node())
            agent.send(AgentHello(agent.node, ClusterName("another", "another")))
            welcome = await anext(agent.frames)
            assert isinstance(welcome, Welcome)
            with rig.state.store.snapshot() as snapshot:
                assert welcome.cluster.cluster_id == snapshot.meta.cluster_id() != ""
                assert welcome.cluster.log_id == snapshot.meta.log_id() != ""
                assert snapshot.nodes.get(agent.node.id) is None
            assert [frame async for frame in agent.frames] == []
            await agent.close()

    asyncio.run(run())
