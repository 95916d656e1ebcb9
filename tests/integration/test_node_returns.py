"""A node that was away runs exactly what is wanted once the first set of its new session came.

Real log, store, leader loops, worker and gRPC on the servers' side; real runners and link on the
agent's, with the mock driver, whose tasks outlive the agent here. Only the first set of the session
reaches the agent: what it does not settle stays wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.connection.node_stream import ServerLink
from agent.drivers.mock import MockDriver
from orchgit.clock import FakeClock, SystemClock
from orchgit.model.allocation import ClientStatus
from orchgit.model.base import NS_PER_S
from orchgit.model.group import DisconnectStrategy
from orchgit.model.job import Job
from orchgit.model.node import Node, NodeStatus
from orchgit.model.task import Task
from orchgit.model.volume import HostVolume
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.state.snapshot import Snapshot
from orchgit.wire.messages import AllocReport, AllocSet, CsiAnswer, CsiCall, VolumeResult
from tests.integration.control_rig import Rig, agent_node, connected, leader
from tests.integration.test_control_loops import placed
from tests.support.agent_rig import AgentRig, mock_job
from tests.support.factories import make_evaluation
from tests.support.node_stream import open_node_stream
from tests.support.polling import until

COUNT = 2


def a_job(**fields: Any) -> Job:
    """Its tasks run in the mock driver, under the name of one that the nodes have."""
    return mock_job(Task(name="web", driver="raw_exec"), **fields)


class Side:
    """A node with real runners; each life of its agent is one `AgentRig`."""

    def __init__(self, path: Path, node: Node) -> None:
        self.described = node
        self._path = path
        self._driver = MockDriver(SystemClock())
        self.only_first = False
        self.first = asyncio.Event()
        self.wanted: set[str] = set()
        """By the first set of the session."""
        self._life: AgentRig
        self._link: ServerLink

    def begin(self, rig: Rig) -> None:
        self._life = AgentRig(self._path, SystemClock(), {"raw_exec": self._driver})
        self.connect(rig)

    def connect(self, rig: Rig) -> None:
        self.first.clear()
        self._link = ServerLink([rig.rpc.address], self, FakeClock(), open_node_stream, "seed")
        self._life.forward = lambda report, urgent: self._link.report(report, urgent)
        self._link.start()

    async def disconnect(self) -> None:
        await self._link.stop()

    async def die(self) -> None:
        await self._link.stop()
        await self._life.close()

    def running(self) -> set[str]:
        """The allocations whose tasks run."""
        return {
            runner.id
            for runner in self._life.allocs
            if any(task.handle is not None for task in runner.tasks.values())
        }

    async def until(self, condition: Callable[[set[str]], bool]) -> None:
        """Wait until it holds for what runs."""
        await until(lambda: condition(self.running()), 120)

    async def until_running(self, wanted: set[str]) -> None:
        await self.until(lambda running: running == wanted)

    # -- what the link asks for

    introduction = ""

    def node(self) -> Node:
        return self.described

    def full_report(self) -> list[AllocReport]:
        return self._life.allocs.full_report()

    def take_allocations(self, wanted: AllocSet) -> None:
        if not (self.only_first and self.first.is_set()):
            self._life.allocs.take(wanted)
        if not self.first.is_set():
            told = [one.alloc for one in wanted.changed]
            self.wanted = {one.id for one in told if not one.is_terminal}
        self.first.set()

    def volume_results(self) -> list[VolumeResult]:
        return []

    async def answer_csi(self, call: CsiCall) -> CsiAnswer:
        raise NotImplementedError

    def take_volumes(self, volumes: list[HostVolume]) -> None:
        """None are sent."""

    def take_acl(self, acl: bool) -> None:
        pass

    def take_servers(self, servers: list[str]) -> None:
        """There is one."""

    def contact_changed(self, connected: bool) -> None:
        """Nothing depends on it here."""


async def deregister(rig: Rig, job: Job, purge: bool) -> None:
    evaluation = make_evaluation(job)
    deletion = JobDeletion(namespace=job.namespace, job_id=job.id, purge=purge)
    await rig.state.propose(DeregisterJob(deletion=deletion, evaluation=evaluation))
    await rig.evaluation_ends(evaluation.id)


async def happen(rig: Rig, job: Job, what: str) -> None:
    """Something happens to the job while the node is away."""
    if what == "updated":
        await rig.register(msgspec.structs.replace(job, meta={"a": "b"}))
    elif what == "stopped":
        await deregister(rig, job, purge=False)
    elif what in ("purged", "collected", "registered again"):
        await deregister(rig, job, purge=True)
    if what == "collected":
        await rig.control.collect_garbage()
    if what == "registered again":
        again = await rig.register(msgspec.structs.replace(a_job(), id=job.id))
        await rig.evaluation_ends(again.id)


async def down(rig: Rig, clock: FakeClock, node: Node, status: str = NodeStatus.DOWN) -> None:
    await clock.advance(60)
    await rig.until("nodes", read=lambda s: s.nodes.get(node.id).status == status)


async def until_called(rig: Rig, alloc_ids: set[str], status: str) -> None:
    def read(snapshot: Snapshot) -> bool:
        found = snapshot.allocations.get_many(alloc_ids)
        return [one.client_status for one in found] == [status] * len(alloc_ids)

    await rig.until("allocations", read=read)


async def replaced(rig: Rig, node: Node) -> None:
    def read(snapshot: Snapshot) -> bool:
        return len(snapshot.allocations.of_node(node.id, terminal=False)) == COUNT

    await rig.until("allocations", read=read)


def settled(rig: Rig, job: Job) -> object:
    return rig.until(
        "evaluations",
        read=lambda s: all(
            one.is_terminal or one.status == "blocked"
            for one in s.evaluations.of_job(job.namespace, job.id)
        ),
    )


@pytest.mark.parametrize(
    "meanwhile", ["nothing", "updated", "stopped", "purged", "collected", "registered again"]
)
@pytest.mark.parametrize(
    ("absence", "long"),
    [("killed", True), ("cut off", True), ("stopped", True), ("killed", False)],
)
def test_returning_node_runs_the_desired_allocations(
    tmp_path: Path, meanwhile: str, absence: str, long: bool
) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            side = Side(tmp_path / "agent", agent_node())
            side.begin(rig)
            job = a_job()
            job.task_groups[0].count = COUNT
            await rig.register(job)
            held = {one.id for one in await placed(rig, job, COUNT)}
            await side.until_running(held)
            await until_called(rig, held, ClientStatus.RUNNING)
            if absence == "killed":
                await side.die()
            elif absence == "cut off":
                await side.disconnect()
            else:
                side.only_first = True  # it hears nothing while it is stopped
            if long:
                await down(rig, clock, side.described)
            async with connected(rig, agent_node()) as other:
                if long:
                    await replaced(rig, other.node)
                await happen(rig, job, meanwhile)
                await settled(rig, job)
                if meanwhile in ("updated", "registered again"):
                    await rig.restart_control()  # another leader, for what agents notice of it
                if absence == "stopped":
                    await side.disconnect()
                side.only_first = True
                if absence == "killed":
                    side.begin(rig)
                else:
                    side.connect(rig)
                await side.first.wait()
                await side.until_running(side.wanted)
                gone = meanwhile in ("stopped", "purged", "collected", "registered again")
                assert (held & side.wanted == set()) == (long or gone or meanwhile == "updated")
            await side.die()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("meanwhile", ["nothing", "stopped", "purged"])
def test_reconnected_node_keeps_the_desired_allocations(tmp_path: Path, meanwhile: str) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig, rig.worker():
            side = Side(tmp_path / "agent", agent_node())
            side.begin(rig)
            job = a_job(disconnect=DisconnectStrategy(lost_after_ns=600 * NS_PER_S))
            await rig.register(job)
            (held,) = await placed(rig, job, 1)
            await side.until_running({held.id})
            await until_called(rig, {held.id}, ClientStatus.RUNNING)
            await side.die()
            await down(rig, clock, side.described, NodeStatus.DISCONNECTED)
            await until_called(rig, {held.id}, ClientStatus.UNKNOWN)
            await happen(rig, job, meanwhile)
            side.only_first = True
            side.begin(rig)
            await side.first.wait()
            await side.until_running({held.id} if meanwhile == "nothing" else set())
            await side.die()

    asyncio.run(asyncio.wait_for(run(), 30))
