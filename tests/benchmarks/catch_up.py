"""A follower that is far behind catches up by a snapshot, while clients go on writing.

`python -m tests.benchmarks.catch_up --entries 1000000`: three members as processes on loop-back,
durable. One is killed, that many small entries are written, it is started again. JSON lines: the
latency of commits while it starts with next to nothing to catch up, with the follower away, while
it catches up, and how long that took. On few processors its start alone takes time from the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.pacing import pause
from tests.support.polling import until
from tests.support.raft_processes import MemberProcess, RefusedByMember, process_cluster

CLIENTS = 4
CALM_S = 5.0


def _say(kind: str, **figures: object) -> None:
    print(json.dumps({"benchmark": "catch_up", "kind": kind, **figures}), flush=True)


def _latencies(latencies_s: list[float]) -> dict[str, float]:
    ordered = sorted(latencies_s)
    return {
        "writes": len(ordered),
        "p50_ms": round(ordered[len(ordered) // 2] * 1e3, 2),
        "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1e3, 2),
        "max_ms": round(ordered[-1] * 1e3, 2),
    }


class Writers:
    """A few clients that write one after the other, a pause between, so that latency shows."""

    def __init__(self, leader: MemberProcess) -> None:
        self.latencies_s: list[float] = []
        self.refused = 0
        self._writing = True
        self._tasks = [asyncio.create_task(self._client(leader)) for _ in range(CLIENTS)]

    async def _client(self, leader: MemberProcess) -> None:
        while self._writing:
            began_s = time.perf_counter()
            try:
                await leader.ask("fill", "1")
            except RefusedByMember:
                self.refused += 1
                await pause(0.1, "a refused client tries again")
                continue
            self.latencies_s.append(time.perf_counter() - began_s)
            await pause(0.01, "the time between writes")

    async def stop(self) -> dict[str, float]:
        self._writing = False
        await asyncio.gather(*self._tasks)
        return {"refused": self.refused, **_latencies(self.latencies_s)}


async def _started(late: MemberProcess, leader: MemberProcess) -> dict[str, Any]:
    """Start it; how commits were until it had applied what was committed before."""
    reached = (await leader.ask("status"))["applied"]
    writers = Writers(leader)
    began_s = time.perf_counter()
    await late.start()

    async def caught_up() -> bool:
        return bool((await late.ask("status"))["applied"] >= reached)

    await until(caught_up, 600.0)
    seconds = round(time.perf_counter() - began_s, 2)
    return {"seconds": seconds, **await writers.stop()}


async def measure(directory: Path, entries: int, jobs: int) -> dict[str, Any]:
    """How the commits were while the follower caught up, and how long that took."""
    async with process_cluster(directory) as cluster:
        leader = await cluster.leader()
        for first in range(0, jobs, 100):
            await asyncio.gather(*(leader.ask("write", f"job-{first + n}") for n in range(100)))
        late = next(one for one in cluster.members.values() if one is not leader)
        await late.kill()
        _say("restarting", **await _started(late, leader))
        await late.kill()
        leader = await cluster.leader({one for one in cluster.members if one != late.bind})
        began_s = time.perf_counter()
        await leader.ask("fill", str(entries))
        _say("filled", entries=entries, jobs=jobs, seconds=round(time.perf_counter() - began_s, 1))
        calm = Writers(leader)
        await pause(CALM_S, "the span that is measured")
        _say("away", **await calm.stop())
        found = await _started(late, leader)
        found["by_snapshot"] = (Path(late.arguments[0]) / "raft" / "base").exists()
        found["term_changed"] = (await cluster.leader()).bind != leader.bind
        _say("catching-up", **found)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2_000, help="so that the state has a size")
    parser.add_argument("--snapshot-log-mb", type=float, default=16.0)
    options = parser.parse_args()
    os.environ["SNAPSHOT_LOG_BYTES"] = str(int(options.snapshot_log_mb * (1 << 20)))
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(Path(name), options.entries, options.jobs))


if __name__ == "__main__":
    main()
