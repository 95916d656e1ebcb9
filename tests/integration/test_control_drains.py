"""Nodes being emptied, on a real log, store and scheduler."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from orchgit.clock import SECOND_NS, FakeClock
from orchgit.ids import RandomIds
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import MigrateStrategy
from orchgit.model.job import Job
from orchgit.model.node import DrainStrategy, Eligibility, Node
from orchgit.replication.commands.nodes import UpdateNodeDrain
from orchgit.services.context import UseCaseContext
from orchgit.services.nodes.operations import drain_node
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import AllocReport
from tests.integration.control_rig import Rig, StreamAgent, agent_node, connected, leader
from tests.integration.test_control_loops import placed, report_health
from tests.integration.test_control_node_loss import until_down
from tests.support.factories import make_group, make_job, make_system_job


async def drained(rig: Rig, node: Node) -> Node:
    def read(snapshot: Snapshot) -> Node | None:
        found = snapshot.nodes.get(node.id)
        return found if found is not None and found.drain_strategy is None else None

    found: Node = await rig.until("nodes", read=read)
    return found


def context_of(rig: Rig) -> UseCaseContext:
    return UseCaseContext(rig.state, rig.clock, RandomIds())


async def end_stopped(rig: Rig, agent: StreamAgent) -> None:
    """The agent reports that what it was told to stop has ended."""
    with rig.store.snapshot() as snapshot:
        held = snapshot.allocations.of_node(agent.node.id)
    await agent.report(
        *(
            AllocReport(alloc_id=each.id, client_status=ClientStatus.COMPLETE)
            for each in held
            if each.is_server_terminal and not each.is_client_terminal
        )
    )


def test_draining_node_is_emptied_max_parallel_at_a_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            old, new = agent_node(), agent_node()
            async with connected(rig, old) as leaving:
                group = make_group(count=2, migrate=MigrateStrategy(max_parallel=1))
                job = make_job(task_groups=[group])
                await rig.register(job)
                await report_health(leaving, True, *await placed(rig, job, 2))
                async with connected(rig, new) as taking:
                    await rig.state.propose(UpdateNodeDrain(node_id=old.id, drain=DrainStrategy()))
                    for moved in (1, 2):
                        await _move_one(rig, job, leaving, taking, moved)

                    def drained(snapshot: Snapshot) -> bool:
                        return snapshot.nodes.get(old.id).drain_strategy is None

                    await rig.until("nodes", read=drained)

    asyncio.run(run())


async def _move_one(
    rig: Rig, job: Job, leaving: StreamAgent, taking: StreamAgent, moved: int
) -> None:
    """One allocation after the other: `moved` are on the new node when it is done."""

    def arrived(snapshot: Snapshot) -> list[Allocation]:
        held = snapshot.allocations.of_job(job.namespace, job.id)
        new = [each for each in held if each.node_id == taking.node.id]
        assert len(new) <= moved
        return new if len(new) == moved else []

    new: list[Allocation] = await rig.until("allocations", read=arrived)
    with rig.store.snapshot() as snapshot:
        stopped = [
            each
            for each in snapshot.allocations.of_node(leaving.node.id)
            if each.is_server_terminal
        ]
    assert len(stopped) == moved
    await leaving.report(
        *(AllocReport(alloc_id=e.id, client_status=ClientStatus.COMPLETE) for e in stopped)
    )
    await report_health(taking, None, *new)  # it runs, but nobody knows yet how well
    await rig.state.writer.barrier()
    with rig.store.snapshot() as snapshot:
        left = snapshot.allocations.of_node(leaving.node.id, terminal=False)
        assert not any(each.desired_transition.migrate for each in left)
    await report_health(taking, True, *new)


def test_nodes_drained_together_respect_max_parallel_of_a_group(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, rig.worker():
            old = [agent_node(cpu_shares=200), agent_node(cpu_shares=200)]
            group = make_group(count=4, migrate=MigrateStrategy(max_parallel=1))
            job = make_job(task_groups=[group])
            async with connected(rig, old[0]) as first, connected(rig, old[1]) as second:
                await rig.register(job)
                for held in await placed(rig, job, 4):
                    agent = first if held.node_id == old[0].id else second
                    await report_health(agent, True, held)
                async with connected(rig, agent_node()) as taking:
                    for node in old:
                        await drain_node(context_of(rig), node.id, DrainStrategy())
                    for moved in range(1, 5):
                        await _one_more(rig, job.id, taking, moved, len(old))
                        for agent in (first, second):
                            await end_stopped(rig, agent)
                    for node in old:
                        await drained(rig, node)

    asyncio.run(run())


async def _one_more(rig: Rig, job_id: str, taking: StreamAgent, moved: int, old: int) -> None:
    def arrived(snapshot: Snapshot) -> list[Allocation]:
        held = snapshot.allocations.of_job("default", job_id)
        counts = Counter(each.is_server_terminal for each in held)
        assert counts[True] <= moved, f"{counts[True]} of {old} nodes were stopped at once"
        new = [each for each in held if each.node_id == taking.node.id]
        return new if len(new) == moved else []

    await report_health(taking, True, *await rig.until("allocations", read=arrived))


def test_node_that_dies_during_its_drain_is_drained(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            node = agent_node()
            async with connected(rig, node) as agent:
                job, everywhere = make_job(), make_system_job()
                for each in (job, everywhere):
                    await rig.register(each)
                    await report_health(agent, True, *await placed(rig, each, 1))
                await drain_node(context_of(rig), node.id, DrainStrategy())
                with rig.store.snapshot() as snapshot:
                    assert snapshot.nodes.get(node.id).drain
            await until_down(rig, clock, node.id)
            after = await drained(rig, node)
            assert after.scheduling_eligibility == Eligibility.INELIGIBLE
            with rig.store.snapshot() as snapshot:
                assert all(held.is_client_terminal for held in snapshot.allocations.all())

    asyncio.run(run())


def test_drain_keeps_the_operators_message_and_metadata(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            node, context = agent_node(), context_of(rig)
            async with connected(rig, node) as agent:
                job = make_job()
                await rig.register(job)
                async with rig.worker():
                    (held,) = await placed(rig, job, 1)
                    await agent.report(AllocReport(held.id, client_status=ClientStatus.RUNNING))
                slow = DrainStrategy(deadline_ns=3600 * SECOND_NS)
                await drain_node(context, node.id, slow, meta={"message": "new disks"})
                with rig.store.snapshot() as snapshot:
                    begun = snapshot.nodes.get(node.id)
                assert begun.last_drain["Status"] == "draining"
                assert begun.last_drain["Meta"] == {"message": "new disks"}
                await clock.advance(5)
                await drain_node(context, node.id, DrainStrategy(deadline_ns=60 * SECOND_NS))
                with rig.store.snapshot() as snapshot:
                    changed = snapshot.nodes.get(node.id).drain_strategy
                assert changed.started_at == begun.drain_strategy.started_at
                assert changed.force_deadline < begun.drain_strategy.force_deadline
                await drain_node(context, node.id, None)
                with rig.store.snapshot() as snapshot:
                    ended = snapshot.nodes.get(node.id)
                assert ended.last_drain["Status"] == "canceled"
                assert ended.scheduling_eligibility == Eligibility.INELIGIBLE
                assert ended.last_drain["StartedAt"] == begun.last_drain["StartedAt"]

    asyncio.run(run())


def test_drain_past_its_deadline_records_that_it_was_reached(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            node = agent_node()
            async with connected(rig, node) as agent:
                job = make_job(type="sysbatch")
                await rig.register(job)
                await report_health(agent, None, *await placed(rig, job, 1))
                strategy = DrainStrategy(deadline_ns=5 * SECOND_NS)
                await drain_node(context_of(rig), node.id, strategy)
                await clock.advance(4)
                await rig.state.writer.barrier()
                with rig.store.snapshot() as snapshot:
                    (held,) = snapshot.allocations.of_node(node.id)
                assert not held.is_server_terminal
                await clock.advance(1)
                await rig.until(
                    "allocations", read=lambda s: s.allocations.get(held.id).is_server_terminal
                )
                await end_stopped(rig, agent)
                after = await drained(rig, node)
                assert after.last_drain["Status"] == "complete"
                assert after.events[-1].details == {"deadline_reached": "true"}

    asyncio.run(run())
