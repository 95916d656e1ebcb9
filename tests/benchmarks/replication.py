"""Three servers on loop-back, durable: small writes and job registrations through HTTP, fail-over.

    python -m tests.benchmarks.replication [--seconds 5] [--kills 5]

One JSON line for each measurement: `clients`, `writes_per_s`, `p50_ms`, `p99_ms`; `load_cpu` is
what the clients took of one core, `cpu_us` what the three servers took for each write.
Fail-over: from `kill -9` of the leader until a write succeeds, with default settings.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from tests.support.loopback import Loopback
from tests.support.polling import until
from tests.support.real_cluster import HostProcess, RealCluster

LOADS = (("var", 1), ("var", 16), ("var", 64), ("job", 16))


def _say(kind: str, **figures: object) -> None:
    print(json.dumps({"benchmark": "replication", "kind": kind, **figures}), flush=True)


async def measure(cluster: RealCluster, kind: str, clients: int, seconds: float) -> None:
    leader = await cluster.leader()
    before_s = _cpu_s(cluster.servers.values())
    host, port = leader.http
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.benchmarks.http_load", f"{host}:{port}"),
        *("--kind", kind, "--clients", str(clients), "--seconds", str(seconds)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, f"the load failed; see {leader.log}"
    figures = json.loads(out)
    cpu_s = _cpu_s(cluster.servers.values()) - before_s
    per_write = cpu_s / (figures["writes_per_s"] * seconds)
    _say({"var": "write", "job": "registration"}[kind], **figures, cpu_us=round(per_write * 1e6))


def _cpu_s(servers: Iterable[HostProcess]) -> float:
    """Of the servers and their scheduler workers."""
    total = 0.0
    for server in servers:
        process = psutil.Process(server.pid)
        for one in (process, *process.children(recursive=True)):
            times = one.cpu_times()
            total += times.user + times.system
    return total


async def fail_over(cluster: RealCluster, kills: int) -> None:
    waits_s = []
    for trial in range(kills):
        leader = await cluster.leader()
        others = cluster.followers(leader)
        await leader.kill()
        killed_s = time.perf_counter()
        await written(others, f"fail-over/{trial}")
        waits_s.append(time.perf_counter() - killed_s)
        await leader.start()
        await leader.answers()
    waits_s.sort()
    median_s = waits_s[len(waits_s) // 2]
    _say("fail-over", kills=kills, median_s=round(median_s, 2), max_s=round(waits_s[-1], 2))


async def written(servers: list[HostProcess], path: str) -> None:
    """Ask one after the other until a write succeeds."""

    async def one_writes() -> bool:
        for server in servers:
            answer = await server.ask("PUT", f"/v1/var/{path}", b'{"Items":{"a":"b"}}')
            if answer.status == 200:
                return True
        return False

    await until(one_writes, 600.0, "no server takes a write")


async def _run(directory: Path, seconds: float, kills: int) -> None:
    cluster = RealCluster(Loopback(), directory)
    try:
        await cluster.start()
        for kind, clients in LOADS:
            await measure(cluster, kind, clients, seconds)
        await fail_over(cluster, kills)
    finally:
        await cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--directory", default=None, help="on the disk to measure")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        asyncio.run(_run(Path(directory), arguments.seconds, arguments.kills))


if __name__ == "__main__":
    main()
