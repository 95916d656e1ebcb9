"""Three members as processes on loop-back, durable: small writes by the leader and by a follower
(forwarded), and how long after a kill of the leader a write succeeds.

`python -m tests.benchmarks.replication_cluster`; JSON lines.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.polling import until
from tests.support.raft_processes import MemberProcess, RefusedByMember, process_cluster

KILLS = 10


def _say(kind: str, **figures: object) -> None:
    print(json.dumps({"benchmark": "replication_cluster", "kind": kind, **figures}), flush=True)


async def _write(members: Iterator[MemberProcess], name: str) -> None:
    """Asks one member after the other until a write succeeds."""

    async def written() -> bool:
        await next(members).ask("write", name)
        return True

    await until(written, 600.0, retried=(RefusedByMember,))


async def _measure(directory: Path) -> None:
    async with process_cluster(directory) as cluster:
        for clients in (1, 16, 64):
            leader = await cluster.leader()
            _say("leader", clients=clients, **await leader.ask("load", str(clients)))
        leader = await cluster.leader()
        follower = next(one for one in cluster.members.values() if one is not leader)
        for clients in (1, 16, 64):
            _say("follower", clients=clients, **await follower.ask("load", str(clients)))
        waits_s = []
        for trial in range(KILLS):
            leader = await cluster.leader()
            alive = [one for one in cluster.members.values() if one is not leader]
            await leader.kill()
            killed_s = time.perf_counter()
            await _write(itertools.cycle(alive), f"after-{trial}")
            waits_s.append(time.perf_counter() - killed_s)
            await leader.start()
        waits_s.sort()
        _say(
            "fail-over",
            kills=KILLS,
            median_s=round(waits_s[KILLS // 2], 2),
            max_s=round(waits_s[-1], 2),
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_measure(Path(name)))
