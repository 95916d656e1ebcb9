"""Three servers and two agents through random bad times, while clients write, register and push.

    python -m tests.benchmarks.chaos [--minutes 2] [--seed 1] [--directory DIR]

Each round: something goes wrong (drawn from the seed), stays for some seconds, and is mended; then
a write has to succeed within two election time-outs. At the end everything that must hold is
checked: histories, what was acknowledged on every server, equal tables, invariants, each task
started once. One JSON line a round and one at the end; exit code 1 and the seed when something is
wrong, and the directory with all logs stays. Needs root (network namespaces).
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
from tests.support.pushing import Pusher
from tests.support.real_cluster import HostProcess, RealCluster
from tests.support.workload import at_work

LASTS_S = (0.5, 6.0)


class Chaos:
    """The faults by name; each is a coroutine that does it, waits, and mends it."""

    def __init__(self, cluster: RealCluster, network: FaultyNetwork, chance: random.Random) -> None:
        self._cluster = cluster
        self._network = network
        self._chance = chance

    async def some_time(self) -> None:
        await asyncio.sleep(self._chance.uniform(*LASTS_S))

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
        victim = self._chance.choice(list(self._cluster.agents.values()))
        await victim.kill()
        await self.some_time()
        await victim.start()

    def draw(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        faults = [
            *(self.kill, self.kill_two, self.kill_all, self.stop, self.part, self.part_all),
            *(self.one_way, self.mute, self.cable, self.spoil, self.cut, self.kill_agent),
        ]
        fault = self._chance.choice(faults)
        return fault.__name__, fault


async def run(directory: Path, minutes: float, seed: int) -> None:
    chance, marks = random.Random(seed), directory / "marks"
    end_s = time.monotonic() + minutes * 60
    rounds, waits_s = 0, []
    async with faulty_cluster(directory, agents=2, seed=seed) as (cluster, network):
        scale_s = await healthy_write_s(cluster)
        chaos = Chaos(cluster, network, chance)
        async with at_work(cluster, seed, marks=str(marks)) as history:
            pusher = Pusher(cluster, network, directory / "git", history)
            await pusher.prepare()
            pushing = asyncio.create_task(pusher.run())
            while time.monotonic() < end_s:
                name, fault = chaos.draw()
                say(round=(rounds := rounds + 1), fault=name)
                await fault()
                network.mend()
                waits_s.append(await writable_again(cluster, time.monotonic(), scale_s))
                assert not pushing.done(), pushing.result()
            pushing.cancel()
        await cluster.leader()
        await pusher.check(list(cluster.servers.values()))
        await check_started_once(cluster, marks, timeout_s=120.0)
        await check(cluster, history)
    say(
        seed=seed,
        rounds=rounds,
        writes=history.writes,
        unknown=history.failures,
        jobs=len(history.jobs),
        commits=len(history.commits),
        slowest_heal_s=round(max(waits_s), 2),
        lost=0,
    )


def say(**figures: object) -> None:
    print(json.dumps({"benchmark": "chaos", **figures}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="for data and logs; a temporary one")
    arguments = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        asyncio.run(run(directory, arguments.minutes, arguments.seed))
    except (AssertionError, OSError, TimeoutError) as problem:
        say(seed=arguments.seed, problem=str(problem), directory=str(directory))
        sys.exit(1)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
