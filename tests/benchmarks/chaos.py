"""Three servers and two agents through random bad times, while clients write, register and push.

    python -m tests.benchmarks.chaos [--minutes 2] [--seeds 1-20] [--longest 60] [--directory DIR]

Each round: something goes wrong (drawn from the seed), stays for some seconds, and is mended; then
a write has to succeed within two election time-outs, and the processes on the nodes have to be
those that are wanted: services are registered, updated, reverted, stopped and purged all the time,
and faults last longer than a heartbeat. At the end of a seed everything that must hold is checked:
histories, what was acknowledged on every server, equal tables, invariants, each task started once.
One JSON line a round and one at the end with the doubled and the lost tasks of all seeds; exit code
1 when something is wrong, and the directory with all logs stays. Needs root (network namespaces).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster_checks import (
    check,
    check_started_once,
    healthy_write_s,
    writable_again,
)
from tests.support.cluster_net import FaultyNetwork, faulty_cluster
from tests.support.fault_proxy import Faults
from tests.support.netns import missing
from tests.support.pacing import pause
from tests.support.pushing import Pusher
from tests.support.real_cluster import HostProcess, RealCluster
from tests.support.task_census import Changer, settles
from tests.support.workload import at_work

SHORTEST_S, LONGEST_S = 1.0, 60.0
HEARTBEATS = {
    "min_heartbeat_ttl": "2s",
    "heartbeat_grace": "2s",
    "failover_heartbeat_ttl": "5s",
}


class Chaos:
    """The faults by name; each is a coroutine that does it, waits, and mends it."""

    def __init__(
        self,
        cluster: RealCluster,
        network: FaultyNetwork,
        chance: random.Random,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._longest_s = longest_s
        self._cluster = cluster
        self._network = network
        self._chance = chance

    async def some_time(self) -> None:
        """Short times as often as long ones."""
        span = self._longest_s / SHORTEST_S
        await pause(SHORTEST_S * span ** self._chance.random(), "the fault lasts")

    def someone(self) -> HostProcess:
        return self._chance.choice(list(self._cluster.servers.values()))

    async def _leader_or_someone(self) -> HostProcess:
        return await self._cluster.leader() if self._chance.random() < 0.7 else self.someone()

    async def kill(self) -> None:
        victim = await self._leader_or_someone()
        await victim.kill()
        await self.some_time()
        await victim.start()
        await victim.answers()

    async def kill_two(self) -> None:
        """No majority is left."""
        victims = self._chance.sample(list(self._cluster.servers.values()), 2)
        await asyncio.gather(*(one.kill() for one in victims))
        await self.some_time()
        await asyncio.gather(*(one.start() for one in victims))
        await asyncio.gather(*(one.answers() for one in victims))

    async def kill_all(self) -> None:
        servers = self._cluster.servers.values()
        await asyncio.gather(*(one.kill() for one in servers))
        await asyncio.gather(*(one.start() for one in servers))
        await asyncio.gather(*(one.answers() for one in servers))

    async def stop(self) -> None:
        victim = await self._leader_or_someone()
        victim.signal(signal.SIGSTOP)
        await self.some_time()
        victim.signal(signal.SIGCONT)

    async def part(self) -> None:
        victim = await self._leader_or_someone()
        others = [one.host for one in self._cluster.followers(victim)]
        self._network.part([victim.host], others)
        await self.some_time()

    async def part_all(self) -> None:
        names = list(self._cluster.servers)
        self._network.part(names, names)
        await self.some_time()

    async def one_way(self) -> None:
        one, two = self._chance.sample(list(self._cluster.servers), 2)
        self._network.block(one, two)
        await self.some_time()

    async def mute(self) -> None:
        victim = await self._leader_or_someone()
        for other in self._cluster.followers(victim):
            self._network.block(victim.host, other.host)
        await self.some_time()

    async def cable(self) -> None:
        victim = await self._leader_or_someone()
        self._network.set_cable(victim.host, up=False)
        await self.some_time()

    async def spoil(self) -> None:
        bad = Faults(
            delay_s=self._chance.uniform(0, 0.05),
            jitter_s=self._chance.uniform(0, 0.1),
            loss=self._chance.uniform(0, 0.1),
            reset=self._chance.uniform(0, 0.005),
            bytes_per_s=self._chance.choice([0, 1e5, 1e6]),
        )
        self._network.spoil(bad)
        await self.some_time()

    async def cut(self) -> None:
        one, two = self._chance.sample(list(self._cluster.servers), 2)
        self._network.link(one, two).cut()
        await self.some_time()

    async def kill_agent(self) -> None:
        """Its tasks run on; it takes them up again."""
        victim = self._an_agent()
        await victim.kill()
        await self.some_time()
        await victim.start()

    def _an_agent(self) -> HostProcess:
        return self._chance.choice(list(self._cluster.agents.values()))

    async def stop_agent(self) -> None:
        victim = self._an_agent()
        victim.signal(signal.SIGSTOP)
        await self.some_time()
        victim.signal(signal.SIGCONT)

    async def cut_agent(self) -> None:
        """Its heartbeats are missed; it comes back by itself."""
        self._cut_off(self._an_agent())
        await self.some_time()

    def _cut_off(self, agent: HostProcess) -> None:
        """Its connections pass proxies on its own host, which a cable does not concern."""
        self._network.part([agent.host], self._cluster.servers)

    async def kill_agent_and_leader(self) -> None:
        """The agent comes back to another leader than it left."""
        agent, leader = self._an_agent(), await self._cluster.leader()
        await agent.kill()
        await self.some_time()
        await leader.kill()
        await agent.start()
        await leader.start()
        await leader.answers()

    async def cut_agent_and_kill_leader(self) -> None:
        self._cut_off(self._an_agent())
        leader = await self._cluster.leader()
        await leader.kill()
        await self.some_time()
        await leader.start()
        await leader.answers()

    def draw(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        faults = [
            *(self.kill, self.kill_two, self.kill_all, self.stop, self.part, self.part_all),
            *(self.one_way, self.mute, self.cable, self.spoil, self.cut),
            *(self.kill_agent, self.stop_agent, self.cut_agent) * 2,
            *(self.kill_agent_and_leader, self.cut_agent_and_kill_leader) * 2,
        ]
        fault = self._chance.choice(faults)
        return fault.__name__, fault


@dataclass
class Outcome:
    """Of one seed."""

    rounds: int = 0
    doubled: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    slowest_heal_s: float = 0.0
    slowest_settle_s: float = 0.0


async def run(directory: Path, minutes: float, seed: int, longest_s: float) -> Outcome:
    chance, marks = random.Random(seed), directory / "marks"
    end_s = time.monotonic() + minutes * 60
    outcome = Outcome()
    async with faulty_cluster(directory, agents=2, seed=seed, server_options=HEARTBEATS) as (
        cluster,
        network,
    ):
        scale_s = await healthy_write_s(cluster)
        chaos = Chaos(cluster, network, chance, longest_s)
        changer = Changer(cluster, random.Random(seed))
        async with at_work(cluster, seed, marks=str(marks)) as history:
            pusher = Pusher(cluster, network, directory / "git", history)
            await pusher.prepare()
            works = [asyncio.create_task(pusher.run()), asyncio.create_task(changer.run())]
            while time.monotonic() < end_s:
                name, fault = chaos.draw()
                outcome.rounds += 1
                changer.may_work.set()
                began_s = time.monotonic()
                await fault()
                lasted_s = time.monotonic() - began_s
                network.mend()
                heal_s = await writable_again(cluster, time.monotonic(), scale_s)
                changer.may_work.clear()
                settle_s, count = await settles(cluster, network)
                for work in works:
                    assert not work.done(), work.result()
                outcome.doubled += count.doubled
                outcome.lost += count.lost
                outcome.stuck += count.stuck
                outcome.slowest_heal_s = max(outcome.slowest_heal_s, heal_s)
                outcome.slowest_settle_s = max(outcome.slowest_settle_s, settle_s)
                say(
                    seed=seed,
                    round=outcome.rounds,
                    fault=name,
                    lasted_s=round(lasted_s, 1),
                    settle_s=round(settle_s, 1),
                    doubled=len(count.doubled),
                    lost=len(count.lost),
                    stuck=len(count.stuck),
                )
            for work in works:
                work.cancel()
        await cluster.leader()
        await pusher.check(list(cluster.servers.values()))
        await check_started_once(cluster, marks, timeout_s=120.0)
        await check(cluster, history)
    say(
        seed=seed,
        rounds=outcome.rounds,
        writes=history.writes,
        unknown=history.failures,
        changes=changer.changes,
        jobs=len(history.jobs),
        commits=len(history.commits),
        slowest_heal_s=round(outcome.slowest_heal_s, 2),
        slowest_settle_s=round(outcome.slowest_settle_s, 2),
        doubled=outcome.doubled,
        lost=outcome.lost,
        stuck=outcome.stuck,
    )
    return outcome


def say(**figures: object) -> None:
    print(json.dumps({"benchmark": "chaos", **figures}), flush=True)


def seeds_of(text: str) -> list[int]:
    """`3`, `1-20`, `1,4,7-9`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="of each seed")
    parser.add_argument("--seeds", type=seeds_of, default=[1], help="such as 7, or 1-20")
    parser.add_argument("--longest", type=float, default=LONGEST_S, help="seconds of a fault")
    parser.add_argument("--directory", type=Path, help="for data and logs; a temporary one")
    arguments = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    problems, rounds, doubled, lost, stuck = 0, 0, 0, 0, 0
    for seed in arguments.seeds:
        base = arguments.directory or Path(tempfile.mkdtemp(prefix="chaos-"))
        directory = base / str(seed)
        directory.mkdir(parents=True)
        try:
            outcome = asyncio.run(run(directory, arguments.minutes, seed, arguments.longest))
        except (AssertionError, OSError, TimeoutError) as problem:
            problems += 1
            say(seed=seed, problem=str(problem)[:2000], directory=str(directory))
            continue
        rounds += outcome.rounds
        doubled, lost = doubled + len(outcome.doubled), lost + len(outcome.lost)
        stuck += len(outcome.stuck)
        if not (outcome.doubled or outcome.lost or outcome.stuck):
            shutil.rmtree(directory if arguments.directory else base)
    say(
        seeds=len(arguments.seeds),
        rounds=rounds,
        doubled_tasks=doubled,
        lost_tasks=lost,
        stuck_allocations=stuck,
        problems=problems,
    )
    sys.exit(bool(problems or doubled or lost or stuck))


if __name__ == "__main__":
    main()
