"""`kill -9` of a server's state under load, again and again on the same directory.

`python -m tests.support.kill_trials DIRECTORY --trials 50 [--seed N]` prints one line of JSON at
the end, and fails at the first broken promise. Each life is a process of its own, forked from one
that has everything imported (and no threads), so that a trial takes little more than the recovery.

Eight clients write, each its own two things: a commit (one rollout of four jobs with their
evaluations, compare-and-set on the commit before), and a single job. A life begins with a look at
all of it: nothing acknowledged may be missing, nothing that was never sent may be there, and a
commit is there whole.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import time
import traceback
from pathlib import Path

from orchgit import logs
from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.model.job import Job
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.gitops import ApplyRollout, UpsertSource
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.state.snapshot import Snapshot
from tests.support.factories import make_evaluation, make_job
from tests.support.state import check_invariants
from tests.support.trial_programs import run_program

CLIENTS = 8
JOBS_OF_A_COMMIT = 4
MAX_ACKNOWLEDGED = 120
Numbers = dict[str, int]
"""By what is written ("commits of 3", "job of 3"): the number of the newest."""


def _job(name: str, number: int) -> Job:
    return make_job(id=name, meta={"number": str(number)})


def _commit(client: int, number: int) -> ApplyRollout:
    jobs = [_job(f"c{client}-{n}", number) for n in range(JOBS_OF_A_COMMIT)]
    return ApplyRollout(
        rollout=Rollout(id=f"r{client}", source=f"s{client}", commit=Commit(id=str(number))),
        expected_commit=str(number - 1) if number > 1 else "",
        upserts=[JobUpsert(job=job) for job in jobs],
        evaluations=[make_evaluation(job, id=f"e-{job.id}") for job in jobs],
    )


def _registration(client: int, number: int) -> RegisterJob:
    job = _job(f"j{client}", number)
    return RegisterJob(upsert=JobUpsert(job=job), evaluation=make_evaluation(job, id=f"e-{job.id}"))


# -- one life of the server ------------------------------------------------------------------------


async def _live(directory: Path, out: int, known: Numbers, writes: bool) -> None:
    config = ReplicationConfig(
        directory, "server", snapshot_log_bytes=64 << 10, segment_bytes=32 << 10
    )
    state = ReplicatedState(config, SystemClock(), RandomIds())
    await state.start()
    with state.store.snapshot() as snapshot:
        check_invariants(snapshot)
        found = _found(snapshot)
    for what, number in found.items():
        assert known.get(what, 0) <= number, f"{what}: {known[what]} was acknowledged, not {number}"
        assert number <= known.get(what, 0) + 1, f"{what}: {number} was never sent"
    os.write(out, json.dumps({"found": found}).encode() + b"\n")
    if writes:
        await asyncio.gather(*(_write(state, out, client, found) for client in range(CLIENTS)))
    await state.stop()


def _found(snapshot: Snapshot) -> Numbers:
    found: Numbers = {}
    for client in range(CLIENTS):
        found[f"commits of {client}"] = _whole_commit(snapshot, client)
        found[f"job of {client}"] = _whole_job(snapshot, f"j{client}")[0]
    return found


def _whole_commit(snapshot: Snapshot, client: int) -> int:
    """Source, rollout, jobs and evaluations are of one commit, and of one entry."""
    source = snapshot.sources.get(f"s{client}")
    number = int((source.status.applied_commit if source else "") or 0)
    rollout = snapshot.rollouts.get(f"r{client}")
    assert number == int(rollout.commit.id if rollout else 0), "source and rollout differ"
    names = [f"c{client}-{n}" for n in range(JOBS_OF_A_COMMIT)]
    jobs = {_whole_job(snapshot, name) for name in names}
    assert len(jobs) == 1, f"half a commit of {client}: {jobs}"
    assert {one[0] for one in jobs} == {number}, f"source {client} is at {number}, jobs: {jobs}"
    return number


def _whole_job(snapshot: Snapshot, name: str) -> tuple[int, int]:
    """Its number and the index of its registration, which its evaluation has too."""
    job, evaluation = snapshot.jobs.get("default", name), snapshot.evaluations.get(f"e-{name}")
    if job is None or evaluation is None:
        assert job is evaluation, f"half an entry: {name}"
        return 0, 0
    assert evaluation.job_modify_index == job.job_modify_index, f"half an entry: {name}"
    return int((job.meta or {})["number"]), job.job_modify_index


async def _write(state: ReplicatedState, out: int, client: int, found: Numbers) -> None:
    await state.propose(UpsertSource(source=Source(name=f"s{client}")))
    commit, job = found[f"commits of {client}"], found[f"job of {client}"]
    while True:
        commit, job = commit + 1, job + 1
        await state.propose(_commit(client, commit))
        os.write(out, json.dumps({"found": {f"commits of {client}": commit}}).encode() + b"\n")
        await state.propose(_registration(client, job))
        os.write(out, json.dumps({"found": {f"job of {client}": job}}).encode() + b"\n")


# -- the one who kills -----------------------------------------------------------------------------


def _fork(directory: Path, known: Numbers, writes: bool) -> tuple[int, int]:
    """(process, what it says)."""
    said, out = os.pipe()
    pid = os.fork()
    if pid:
        os.close(out)
        return pid, said
    try:
        os.close(said)
        asyncio.run(_live(directory, out, known, writes))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _said(said: int, until_lines: int, deadline_s: float) -> list[bytes]:
    """Whole lines, as many as that, or those said before the deadline or the end."""
    data = b""
    while data.count(b"\n") < until_lines:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not select.select([said], [], [], left_s)[0]:
            break
        part = os.read(said, 1 << 16)
        if not part:
            break
        data += part
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def _note(known: Numbers, data: list[bytes]) -> int:
    for line in data:
        known.update(json.loads(line)["found"])
    return len(data)


def _trial(directory: Path, known: Numbers, chance: random.Random) -> int:
    """One life, ended while it recovers or while it writes; how much it acknowledged."""
    pid, said = _fork(directory, known, writes=True)
    if chance.random() < 0.25:
        lines = _said(said, 1 << 30, time.monotonic() + chance.uniform(0, 0.05))
    else:
        lines = _said(said, chance.randint(1, MAX_ACKNOWLEDGED), time.monotonic() + 60)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    # What it had said and nobody had read yet counts as acknowledged too.
    lines += _said(said, 1 << 30, time.monotonic() + 60)
    os.close(said)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"the server ended by itself (status {status}), see above")
    return _note(known, lines)


def _check(directory: Path, known: Numbers) -> None:
    pid, said = _fork(directory, known, writes=False)
    _said(said, 1, time.monotonic() + 60)
    _, status = os.waitpid(pid, 0)
    os.close(said)
    if status != 0:
        raise SystemExit("the last start failed, see above")


def run_trials(directory: Path, trials: int, seed: int) -> dict[str, object]:
    known: Numbers = {}
    chance, acknowledged = random.Random(seed), 0
    began_s = time.monotonic()
    for _ in range(trials):
        acknowledged += _trial(directory, known, chance)
    _check(directory, known)
    return {
        "benchmark": "kill_trials",
        "trials": trials,
        "seed": seed,
        "acknowledged": acknowledged,
        "commits": sum(n for what, n in known.items() if what.startswith("commits")),
        "snapshot_made": (directory / "state" / "snapshot.db").exists(),
        "seconds": round(time.monotonic() - began_s, 1),
    }


def main(directory: Path | None = None) -> None:
    run_program(run_trials, __doc__, directory)


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    main()
