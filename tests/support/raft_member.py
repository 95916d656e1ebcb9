"""One member of a real cluster, to be killed: `python -m tests.support.raft_member DIR BIND PEERS`.
PEERS: addresses of the others, or `alone`, or `waiting` until it is taken in.

Reads lines from standard input and answers each with one line of JSON: `write NAME` registers a
job (on a follower through the leader), `status`, `jobs`, `read` (a current read), `transfer ADDR`,
`load CLIENTS` (small writes for some seconds: their number a second, and latencies), `fill COUNT`
(as many small writes), `large MB` (one large entry: its seconds), `add`, `promote` and
`remove ADDR`, `members`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from orchgit import logs
from orchgit.clock import SystemClock
from orchgit.errors import OrchgitError
from orchgit.ids import RandomIds
from orchgit.raft.state import Timing
from orchgit.replication.commands.entry import Noop
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.wire.tls import TlsFiles
from tests.support.factories import make_job

LOAD_S = 3.0


def _jobs(state: ReplicatedState) -> list[str]:
    with state.store.snapshot() as snapshot:
        return sorted(job.id for job in snapshot.jobs.all())


async def _fill(state: ReplicatedState, count: int) -> int:
    left = count

    async def client() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await state.propose(Noop(), forward=True)

    await asyncio.gather(*(client() for _ in range(256)))
    return state.cluster.last_log_index


async def _load(state: ReplicatedState, clients: int) -> dict[str, float]:
    latencies_s: list[float] = []
    end_s = time.perf_counter() + LOAD_S

    async def client() -> None:
        while (began_s := time.perf_counter()) < end_s:
            await state.propose(Noop(), forward=True)
            latencies_s.append(time.perf_counter() - began_s)

    await asyncio.gather(*(client() for _ in range(clients)))
    latencies_s.sort()
    return {
        "writes_per_s": round(len(latencies_s) / LOAD_S),
        "p50_ms": round(latencies_s[len(latencies_s) // 2] * 1e3, 2),
        "p99_ms": round(latencies_s[len(latencies_s) * 99 // 100] * 1e3, 2),
    }


async def _answer(state: ReplicatedState, word: str, argument: str) -> object:
    if word == "write":
        command = RegisterJob(upsert=JobUpsert(job=make_job(id=argument)))
        return (await state.propose(command, timeout_s=3.0, forward=True)).index
    if word == "load":
        return await _load(state, int(argument))
    if word == "large":
        began_s = time.perf_counter()
        job = make_job(id="large", meta={"large": "x" * (int(argument) << 20)})
        await state.propose(RegisterJob(upsert=JobUpsert(job=job)), timeout_s=60.0)
        return round(time.perf_counter() - began_s, 2)
    if word == "fill":
        return await _fill(state, int(argument))
    if word == "add":
        return await state.membership.add(argument)
    if word == "promote":
        return await state.membership.promote(argument)
    if word == "remove":
        return await state.membership.remove(argument)
    if word == "members":
        return {one.address: one.voter for one in state.cluster.members}
    if word == "transfer":
        return await state.cluster.transfer_leadership(argument)
    if word == "read":
        await state.reads.read_index()
        return _jobs(state)
    if word == "jobs":
        return _jobs(state)
    return {
        "leads": state.cluster.is_leader,
        "leader": state.cluster.leader_address,
        "term": state.cluster.term,
        "removed": state.cluster.is_removed,
        "applied": state.store.watch.applied_index,
        "threads_failed": state.failure.error is not None,
    }


async def _handle(state: ReplicatedState, line: str) -> None:
    number, word, argument = (*line.split(), "", "")[:3]
    try:
        answer = {"ok": await _answer(state, word, argument)}
    except OrchgitError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps({"n": int(number), **answer}) + "\n")
    sys.stdout.flush()


def _timing(scale: float) -> Timing:
    """Longer times for a machine that lets processes wait for a processor."""
    usual = Timing()
    low, high = usual.election_s
    return Timing(usual.heartbeat_s, (low * scale, high * scale))


async def _run(directory: Path, bind: str, peers: str, tls: TlsFiles | None) -> None:
    others = () if peers in ("alone", "waiting") else tuple(peers.split(","))
    small = os.environ.get("SNAPSHOT_LOG_BYTES", str(256 << 10))
    config = ReplicationConfig(
        *(directory, bind, bind, others),
        snapshot_log_bytes=int(small),
        segment_bytes=int(small) // 4,
        tls=tls,
        bootstrap=peers != "waiting",
        timing=_timing(float(os.environ.get("TIME_SCALE", "1"))),
    )
    state = ReplicatedState(config, SystemClock(), RandomIds())
    await state.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    tasks: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(_handle(state, line.decode()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await state.stop()


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    _directory, _bind, _peers, *_tls = sys.argv[1:]
    _files = TlsFiles(*(Path(one) for one in _tls)) if _tls else None
    asyncio.run(_run(Path(_directory), _bind, _peers, _files))
