"""Small durable writes of one server: `python -m tests.benchmarks.replication_alone [--seconds 3]`.

For each number of clients one JSON line: writes per second, p50 and p99 in ms, writes per sync.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from tests.support.factories import make_evaluation, make_job


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--directory", default=None, help="on the disk to measure")
    return parser.parse_args()


def _small_write(ids: RandomIds) -> Command:
    return UpsertEvaluations(evaluations=[make_evaluation(make_job(id="job"), id=ids.new())])


def _registration(ids: RandomIds) -> Command:
    job = make_job(id=ids.new())
    return RegisterJob(upsert=JobUpsert(job=job), evaluation=make_evaluation(job, id=ids.new()))


async def _measure(
    state: ReplicatedState, kind: str, clients: int, seconds: float
) -> dict[str, object]:
    ids, taken = RandomIds(), []
    make = {"small-write": _small_write, "registration": _registration}[kind]
    end = time.perf_counter() + seconds

    async def client() -> None:
        while time.perf_counter() < end:
            command = make(ids)
            begin = time.perf_counter()
            await state.propose(command)
            taken.append(time.perf_counter() - begin)

    syncs = state.log_syncs
    await asyncio.gather(*(client() for _ in range(clients)))
    taken.sort()
    return {
        "benchmark": "replication",
        "kind": kind,
        "clients": clients,
        "writes_per_s": round(len(taken) / seconds),
        "p50_ms": round(taken[len(taken) // 2] * 1e3, 3),
        "p99_ms": round(taken[len(taken) * 99 // 100] * 1e3, 3),
        "writes_per_sync": round(len(taken) / (state.log_syncs - syncs), 1),
    }


async def _run(directory: Path, seconds: float) -> None:
    config = ReplicationConfig(directory, "server")
    state = ReplicatedState(config, SystemClock(), RandomIds())
    await state.start()
    for kind in ("small-write", "registration"):
        for clients in (1, 16, 64):
            print(json.dumps(await _measure(state, kind, clients, seconds)), flush=True)
    await state.stop()


def main() -> None:
    arguments = _parse()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        asyncio.run(_run(Path(directory), arguments.seconds))


if __name__ == "__main__":
    main()
