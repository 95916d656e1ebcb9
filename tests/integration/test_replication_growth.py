"""A cluster of processes that grows and shrinks under load, and loses nothing acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from pathlib import Path

from tests.support.pacing import pause
from tests.support.raft_processes import (
    MemberProcess,
    ProcessCluster,
    RefusedByMember,
    growing_cluster,
    until,
)


async def ask_leader(cluster: ProcessCluster, members: list[MemberProcess], *words: str) -> None:
    """Whoever leads; again while it refuses, as for a member that is still behind."""

    async def done() -> bool:
        for member in members:
            with contextlib.suppress(RefusedByMember):
                await member.ask(*words)
                return True
        return False

    await until(done, timeout_s=30.0)


async def take_in(cluster: ProcessCluster, members: list[MemberProcess], new: str) -> None:
    await ask_leader(cluster, members, "add", new)
    await ask_leader(cluster, members, "promote", new)


class Load:
    """Clients that register jobs by any of `members`; `acknowledged`: what must be there."""

    def __init__(self, members: list[MemberProcess]) -> None:
        self.members = members
        self.acknowledged: set[str] = set()
        self._numbers = itertools.count()
        self._loading = True
        self._clients = [asyncio.create_task(self._client()) for _ in range(8)]

    async def _client(self) -> None:
        while self._loading:
            name = f"job-{next(self._numbers)}"
            try:
                await random.choice(self.members).ask("write", name)
                self.acknowledged.add(name)
            except RefusedByMember:
                await pause(0.01, "a refused client tries again")

    async def some(self) -> None:
        """Return when more has been written meanwhile."""
        wanted = len(self.acknowledged) + 30

        async def written() -> bool:
            return len(self.acknowledged) >= wanted

        await until(written, timeout_s=30.0)

    async def stop(self) -> None:
        self._loading = False
        await asyncio.gather(*self._clients)


def test_cluster_grows_to_five_and_shrinks_to_three_under_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with growing_cluster(tmp_path, 5) as cluster:
            everyone = list(cluster.members.values())
            load = Load(everyone[:1])
            for count in (3, 5):
                await load.some()
                known = list(load.members)
                for new in everyone[len(known) : count]:
                    await take_in(cluster, known, new.bind)
                load.members = everyone[:count]
            await load.some()
            leader = await cluster.leader()
            follower = next(one for one in everyone if one is not leader)
            for gone in (leader, follower):
                await ask_leader(cluster, everyone, "remove", gone.bind)
            left = [one for one in everyone if one not in (leader, follower)]
            load.members = left
            await load.some()
            await leader.kill()
            await follower.kill()
            await load.some()
            await load.stop()

            async def all_there() -> bool:
                found = await asyncio.gather(*(one.ask("jobs") for one in left))
                return all(load.acknowledged <= set(one) for one in found)

            await until(all_there)
            assert set(await left[0].ask("members")) == {one.bind for one in left}

    asyncio.run(scenario())


def test_removed_member_causes_no_election(tmp_path: Path) -> None:
    """It is told; and when it is started again without knowing, nobody votes for it."""

    async def scenario() -> None:
        async with growing_cluster(tmp_path, 3) as cluster:
            everyone = list(cluster.members.values())
            for new in everyone[1:]:
                await take_in(cluster, everyone[:1], new.bind)
            leader, gone = everyone[0], everyone[2]
            await gone.kill()
            await ask_leader(cluster, [leader], "remove", gone.bind)
            term = (await leader.ask("status"))["term"]
            await gone.start()

            async def told() -> bool:
                return bool((await gone.ask("status"))["removed"])

            await until(told)
            assert (await leader.ask("status"))["term"] == term
            await leader.ask("write", "goes-on")

    asyncio.run(scenario())
