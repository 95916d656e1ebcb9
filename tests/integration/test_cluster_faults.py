"""Real servers and agents in a network of their own, and what may happen to them.

While clients read and check-and-set variables, something goes wrong. Afterwards: the cluster is
writable in time, every history can be explained, nothing acknowledged is lost on any server, all
servers hold the same, and the invariants hold.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster_checks import (
    check,
    check_started_once,
    healthy_write_s,
    the_allocation,
    writable_again,
)
from tests.support.cluster_net import FaultyNetwork, faulty_cluster
from tests.support.dev_server import ApiUser
from tests.support.fault_proxy import Faults
from tests.support.history import History
from tests.support.netns import missing
from tests.support.pushing import Pusher
from tests.support.real_cluster import HostProcess, RealCluster, until
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.workload import at_work, staying_job

pytestmark = pytest.mark.skipif(bool(missing()), reason=str(missing()))

PROGRESS = 40
"""Acknowledged writes to wait for between two events."""
SLOW_S = 0.05
"""What a slow write takes on a machine that does other work beside."""


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def progress(history: History, writes: int = PROGRESS, timeout_s: float = 200.0) -> None:
    wanted = history.writes + writes

    async def reached() -> bool:
        return history.writes >= wanted

    await until(reached, timeout_s, f"the clients got {history.writes} writes done, not {wanted}")


@dataclass(frozen=True, slots=True)
class Situation:
    cluster: RealCluster
    network: FaultyNetwork
    leader: HostProcess
    history: History

    @property
    def others(self) -> list[HostProcess]:
        return self.cluster.followers(self.leader)

    @property
    def other_names(self) -> list[str]:
        return [one.host for one in self.others]


Fault = Callable[[Situation], Awaitable[float]]
"""Does it, and returns when it was over: the cluster has to be writable soon after that."""


async def through(directory: Path, fault: Fault, seed: int) -> None:
    """Work, the fault, work, and every check."""
    async with faulty_cluster(directory, seed=seed) as (cluster, network):
        scale_s = await healthy_write_s(cluster)
        async with at_work(cluster, seed) as history:
            await progress(history)
            leader = await cluster.leader()
            over_s = await fault(Situation(cluster, network, leader, history))
            await writable_again(cluster, over_s, scale_s)
            await progress(history)
        await check(cluster, history)


def test_cluster_survives_a_killed_leader(tmp_path: Path) -> None:
    async def fault(now: Situation) -> float:
        await now.leader.kill()
        killed_s = time.monotonic()
        await writable_again(now.cluster, killed_s, SLOW_S)
        await progress(now.history)
        await now.leader.start()
        await now.leader.answers()
        return time.monotonic()

    run(through(tmp_path, fault, seed=1))


@pytest.mark.long
def test_cluster_survives_a_paused_leader(tmp_path: Path) -> None:
    """It wakes up believing that it leads, with clients that still wait for it."""

    async def fault(now: Situation) -> float:
        now.leader.signal(signal.SIGSTOP)
        await now.cluster.leader(now.others)
        await progress(now.history)
        now.leader.signal(signal.SIGCONT)
        return time.monotonic()

    run(through(tmp_path, fault, seed=2))


@pytest.mark.long
def test_cluster_survives_a_partitioned_leader(tmp_path: Path) -> None:
    """Clients still reach it; what it cannot commit it must not acknowledge."""

    async def fault(now: Situation) -> float:
        now.network.part([now.leader.host], now.other_names)
        await now.cluster.leader(now.others)
        await progress(now.history)
        now.network.mend()
        return time.monotonic()

    run(through(tmp_path, fault, seed=3))


@pytest.mark.long
def test_cluster_survives_a_leader_whose_link_goes_silent(tmp_path: Path) -> None:
    """Nothing reaches it, clients neither, and nobody is told."""

    async def fault(now: Situation) -> float:
        now.network.set_cable(now.leader.host, up=False)
        await now.cluster.leader(now.others)
        await progress(now.history)
        now.network.mend()
        return time.monotonic()

    run(through(tmp_path, fault, seed=4))


@pytest.mark.long
@pytest.mark.parametrize("is_mute", [True, False], ids=["is not heard", "does not hear"])
def test_cluster_survives_a_leader_whose_link_works_one_way(tmp_path: Path, is_mute: bool) -> None:
    """A leader that hears everybody, but that nobody hears; and the other way round."""

    async def fault(now: Situation) -> float:
        leader = now.leader.host
        for other in now.other_names:
            one, two = (leader, other) if is_mute else (other, leader)
            now.network.block(one, two)
        await now.cluster.leader(now.others)
        await progress(now.history)
        now.network.mend()
        return time.monotonic()

    run(through(tmp_path, fault, seed=5 + is_mute))


@pytest.mark.long
def test_cluster_works_over_slow_and_lossy_links(tmp_path: Path) -> None:
    """Writes go on: later, and through resets."""

    async def fault(now: Situation) -> float:
        bad = Faults(delay_s=0.02, jitter_s=0.03, loss=0.02, reset=0.002, bytes_per_s=2e6)
        now.network.spoil(bad)
        await progress(now.history)
        now.network.mend()
        return time.monotonic()

    run(through(tmp_path, fault, seed=7))


@pytest.mark.long
def test_cluster_survives_the_kill_of_all_servers(tmp_path: Path) -> None:
    async def fault(now: Situation) -> float:
        servers = now.cluster.servers.values()
        await asyncio.gather(*(one.kill() for one in servers))
        await asyncio.gather(*(one.start() for one in servers))
        await asyncio.gather(*(one.answers() for one in servers))
        return time.monotonic()

    run(through(tmp_path, fault, seed=8))


@pytest.mark.long
def test_agents_continue_with_another_leader(tmp_path: Path) -> None:
    """Tasks run on, their ends are told to the new leader, new ones are started; each once."""

    async def scenario() -> None:
        marks = tmp_path / "marks"
        async with faulty_cluster(tmp_path, agents=2, seed=9) as (cluster, _):
            leader = await cluster.leader()
            await leader.ask("PUT", "/v1/jobs", staying_job("stays"))
            alloc_id = await the_allocation(cluster, "stays", "running")
            pids = ApiUser().task_pids(alloc_id)
            async with at_work(cluster, 9, clients=1, marks=str(marks)) as history:
                await registered(history, 2)
                await leader.kill()
                await registered(history, 2)
                await leader.start()
                await leader.answers()
                await registered(history, 2)
            assert ApiUser().task_pids(alloc_id) == pids, "the task did not just run on"
            await (await cluster.leader()).ask("DELETE", "/v1/job/stays")
            assert await the_allocation(cluster, "stays", "complete") == alloc_id
            await check_started_once(cluster, marks)
            await check(cluster, history)

    run(scenario())


async def registered(history: History, jobs: int) -> None:
    wanted = len(history.jobs) + jobs

    async def reached() -> bool:
        return len(history.jobs) >= wanted

    await until(reached, 200.0, f"there are {len(history.jobs)} jobs, not {wanted}")


@pytest.mark.long
def test_pushes_survive_the_loss_of_the_leader(tmp_path: Path) -> None:
    """What was pushed can be cloned from the others while it is dead, and pushes go on."""

    async def scenario() -> None:
        history = History()
        async with faulty_cluster(tmp_path, seed=12) as (cluster, network):
            pusher = Pusher(cluster, network, tmp_path / "git", history)
            await pusher.prepare()
            await pushed(pusher, history, 2)
            leader = await cluster.leader()
            await leader.kill()
            await cluster.leader(cluster.followers(leader))
            await pusher.check(cluster.followers(leader))
            await pushed(pusher, history, 2)
            await leader.start()
            await leader.answers()
            await cluster.leader()
            await pusher.check(list(cluster.servers.values()))
            await check(cluster, history)

    run(scenario())


async def pushed(pusher: Pusher, history: History, commits: int) -> None:
    wanted = len(history.commits) + commits

    async def reached() -> bool:
        await pusher.push()
        return len(history.commits) >= wanted

    await until(reached, 200.0, f"{len(history.commits)} commits were taken, not {wanted}")


@pytest.mark.long
def test_cluster_works_while_a_followers_disk_is_full(tmp_path: Path) -> None:
    """The others go on; it serves reads, and catches up when there is room."""

    async def scenario() -> None:
        async with with_small_disk(tmp_path, seed=10) as (cluster, full, disk):
            await lead(cluster, cluster.servers["s2"])
            async with at_work(cluster, 10, clients=2) as history:
                await progress(history)
                disk.fill()
                refusal = await filling(cluster.servers["s2"], FILLING)
                assert refusal is None, "the leader has room"
                assert (await full.ask("GET", "/v1/jobs?stale")).status == 200
                assert await full.applied_index() < await cluster.servers["s2"].applied_index()
                disk.free()
                await progress(history)
            await check(cluster, history)

    run(scenario())


@pytest.mark.long
def test_leader_with_a_full_disk_transfers_leadership(tmp_path: Path) -> None:
    """Writes are refused with the reason, reads go on; soon another one that has room leads, and
    nobody can hand the lead back before there is room."""

    async def scenario() -> None:
        async with with_small_disk(tmp_path, seed=11) as (cluster, full, disk):
            scale_s = await healthy_write_s(cluster)
            await lead(cluster, full)
            async with at_work(cluster, 11, clients=2) as history:
                await progress(history)
                disk.fill()
                refusal = await filling(full, 10 * FILLING)
                assert refusal is not None
                assert "is full (" in refusal
                assert (await full.ask("GET", "/v1/jobs?stale")).status == 200
                heir = await led_by_another(cluster, full)
                await writable_again(cluster, time.monotonic(), scale_s)
                await progress(history)
                answer = await heir.ask("PUT", transfer_to(cluster, full))
                assert answer.status == 500, answer.text
                assert "its disk is full, so it could not lead" in answer.text
                disk.free()
                await progress(history)
                await taken_back(cluster, full)
            await check(cluster, history)

    run(scenario())


FILLING = 400
"""Writes of 60 KB: more than the small disk of a server holds."""
DISK_MB = 200


@asynccontextmanager
async def with_small_disk(
    directory: Path, seed: int
) -> AsyncIterator[tuple[RealCluster, HostProcess, SmallDisk]]:
    """A cluster whose `s1` has little room."""
    with small_disk(directory / "s1" / "data", DISK_MB) as disk:
        async with faulty_cluster(directory, seed=seed) as (cluster, _):
            yield cluster, cluster.servers["s1"], disk


def transfer_to(cluster: RealCluster, wanted: HostProcess) -> str:
    host, raft = cluster.place.address(wanted.host), cluster.place.ports(wanted.host).raft
    return f"/v1/operator/raft/transfer-leadership?address={host}:{raft}"


async def lead(cluster: RealCluster, wanted: HostProcess) -> None:
    leader = await cluster.leader()
    if leader is not wanted:
        answer = await leader.ask("PUT", transfer_to(cluster, wanted))
        assert answer.status == 200, answer.text

    async def led() -> bool:
        return await cluster.leader() is wanted

    await until(led, 120, f"{wanted.host} does not take over")


async def led_by_another(cluster: RealCluster, full: HostProcess) -> HostProcess:
    """Nobody tells it to hand over."""

    async def led() -> HostProcess | None:
        leader = await cluster.leader()
        return leader if leader is not full else None

    return await until(led, 120, "it keeps the lead")


async def taken_back(cluster: RealCluster, wanted: HostProcess) -> None:
    """It says itself when there is room; then it can lead."""

    async def handed() -> bool:
        leader = await cluster.leader()
        return (await leader.ask("PUT", transfer_to(cluster, wanted))).status == 200

    await until(handed, 120, f"{wanted.host} cannot be made the leader again")


async def filling(server: HostProcess, writes: int) -> str | None:
    """Large writes, until one is refused; what the refusal says."""
    body = json.dumps({"Items": {"value": "x" * 60_000}}).encode()
    for number in range(writes):
        answer = await server.ask("PUT", f"/v1/var/large/{number}", body)
        if answer.status != 200:
            return answer.text
    return None
