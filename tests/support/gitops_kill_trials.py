"""`kill -9` of the server that leads while it applies pushed commits, again and again on one disk.

`python -m tests.support.gitops_kill_trials DIRECTORY --trials 50 [--seed N]` prints one line of
JSON at the end, and fails at the first broken promise. Each life is a process of its own, forked
from one that has everything imported, with real git over real HTTP.

Each commit changes nine jobs in three stages, and adds or removes a tenth. A life begins with a
look at the state, before anything goes on: the applied commit is the newest acknowledged one or a
later one that was sent; a stage of it is there whole or not at all, none before the stage that it
waits for. Now and then, and at the end, the newest commit has to be reached in all its stages.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import select
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchgit import logs
from orchgit.model.rollout import JobAction, Rollout
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import CountingParser, GitopsRig, gitops_rig
from tests.support.pacing import pause_blocking
from tests.support.trial_programs import run_program

STAGES = ("base", "middle", "top")
JOBS_OF_A_STAGE = 3
MOST_NEWS = 8
"""A commit and its stages are about as many changes of the state."""
_ANSWER_S = 60.0
_NOT_APPLIED = ("waiting", "skipped")


def files_of(number: int) -> dict[str, str | bytes | None]:
    """The tree of one commit; all jobs say its number."""
    order = [
        f'job "{stage}-{n}" {{ depends_on = ["{before}-0", "{before}-1", "{before}-2"] }}'
        for before, stage in itertools.pairwise(STAGES)
        for n in range(JOBS_OF_A_STAGE)
    ]
    names = [f"{stage}-{n}" for stage in STAGES for n in range(JOBS_OF_A_STAGE)]
    extra = f'  meta {{\n    number = "{number}"\n  }}\n'
    files: dict[str, str | bytes | None] = {
        f"{name}.nomad.hcl": batch_job(name, extra=extra) for name in names
    }
    files["orchgit.hcl"] = "\n".join(order)
    files["sometimes.nomad.hcl"] = batch_job("sometimes", extra=extra) if number % 2 else None
    return files


# -- one life of the server ------------------------------------------------------------------------


async def _live(directory: Path, out: int) -> None:
    async with gitops_rig(directory, start=False, parser=CountingParser()) as rig:
        if not _has_source(rig):
            await rig.add_source()
        _tell(out, {"url": rig.url("demo"), **_found(rig)})
        await rig.gitops.start()
        while True:
            index = rig.state.store.watch.applied_index
            _tell(out, _found(rig))
            await rig.state.store.watch.wait_applied(index + 1, 60.0)


def _has_source(rig: GitopsRig) -> bool:
    with rig.context.snapshot() as snapshot:
        return snapshot.sources.get("demo") is not None


def _tell(out: int, what: dict[str, Any]) -> None:
    os.write(out, json.dumps(what).encode() + b"\n")


def _found(rig: GitopsRig) -> dict[str, Any]:
    """The number of the applied commit, how many jobs of it wait, and whether it is all there."""
    with rig.context.snapshot() as snapshot:
        source = snapshot.sources.get("demo")
        assert source is not None
        rollout = snapshot.rollouts.get(source.status.applied_rollout)
        jobs = {job.id: job for job in snapshot.jobs.all()}
    if rollout is None:
        assert not jobs, f"jobs without a commit: {sorted(jobs)}"
        return {"number": 0, "waiting": 0, "status": ""}
    assert rollout.commit.id == source.status.applied_commit, "source and rollout differ"
    number = int(rollout.commit.subject.split()[1])
    waiting = {job.job_id for job in rollout.jobs if job.status in _NOT_APPLIED}
    _check_stages(rollout, waiting)
    for change in rollout.jobs:
        job = jobs.get(change.job_id)
        if change.action == JobAction.DELETE:
            is_applied = job is None or job.stop
        else:
            is_applied = job is not None and (job.meta or {})["number"] == str(number)
        wanted = change.job_id not in waiting
        assert is_applied == wanted, f"half applied at {number}: {change} beside {job}"
    return {"number": number, "waiting": len(waiting), "status": str(rollout.status)}


def _check_stages(rollout: Rollout, waiting: set[str]) -> None:
    """A stage is applied whole or not at all, and none before the one that it waits for."""
    applied = {job.stage for job in rollout.jobs if job.job_id not in waiting}
    open_stages = {job.stage for job in rollout.jobs if job.job_id in waiting}
    assert not applied & open_stages, f"half a stage: {rollout.jobs}"
    if applied and open_stages:
        assert max(applied) < min(open_stages), f"a stage came too early: {rollout.jobs}"


# -- the one who pushes and kills ------------------------------------------------------------------


class Life:
    """A server's process, and what it last said."""

    def __init__(self, directory: Path) -> None:
        self._said, out = os.pipe()
        self._text = b""
        self.pid = os.fork()
        if not self.pid:
            os.close(self._said)
            try:
                asyncio.run(_live(directory, out))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(out)
        self.first = self.next()

    def next(self) -> dict[str, Any]:
        """What it says next; fails if it has ended by itself or says nothing."""
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._said], [], [], _ANSWER_S)
            part = os.read(self._said, 1 << 16) if ready else b""
            if not part:
                raise SystemExit("the server ended by itself or hangs, see above")
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        return dict(json.loads(line))

    def until_reached(self, number: int) -> int:
        """Returns the commit's number once every stage of it is applied and healthy; fails unless
        it is in time."""
        deadline_s = time.monotonic() + _ANSWER_S
        found = self.first
        while (found["number"], found["status"]) != (number, "healthy"):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"commit {number} is not reached: {found}")
            found = self.next()
        return int(found["number"])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._said)
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"the server ended by itself (status {status}), see above")


@contextmanager
def life(directory: Path) -> Iterator[Life]:
    alive = Life(directory)
    try:
        yield alive
    finally:
        alive.kill()


def _pushed(work: WorkTree, url: str) -> subprocess.Popen[bytes]:
    command = ("git", "push", "--quiet", "-o", "detach", url, "HEAD:refs/heads/main")
    return subprocess.Popen(
        command,
        cwd=work.path,
        env=work.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _time_of_a_push(work: WorkTree, data: Path) -> float:
    """Pushes the first commit, undisturbed."""
    work.commit(files_of(1), "Commit 1")
    with life(data) as server:
        began_s = time.monotonic()
        assert _pushed(work, server.first["url"]).wait() == 0, "the first push is refused"
        took_s = time.monotonic() - began_s
        server.until_reached(1)
    return took_s


def _wait_to_kill(server: Life, number: int, chance: random.Random, push_s: float) -> None:
    """Until any moment of the push, or of the stages that follow it."""
    if chance.random() < 0.5:
        pause_blocking(chance.uniform(0, 1.3 * push_s), "the moment of the kill")
        return
    for _ in range(200):
        if server.next()["number"] == number:
            break
    for _ in range(chance.randrange(MOST_NEWS)):
        if server.next()["status"] == "healthy":
            return


def run_trials(directory: Path, trials: int, seed: int) -> dict[str, object]:
    chance, began_s = random.Random(seed), time.monotonic()
    work, data = WorkTree(directory / "work"), directory / "data"
    acknowledged = between_stages = applied_unacknowledged = pushes = 0
    push_s = _time_of_a_push(work, data)
    for number in range(2, trials + 2):
        deletes = "" if number % 2 else "\n\nOrchgit-Delete: sometimes"
        work.commit(files_of(number), f"Commit {number}{deletes}")
        with life(data) as server:
            found = server.first["number"]
            if not acknowledged <= found < number:
                raise SystemExit(f"{acknowledged} was acknowledged, {found} is applied")
            between_stages += bool(server.first["waiting"])
            applied_unacknowledged += found > acknowledged
            if found and chance.random() < 0.25:
                server.until_reached(found)
            push = _pushed(work, server.first["url"])
            _wait_to_kill(server, number, chance, push_s)
            has_ended = push.poll() is not None
        if push.wait() == 0 and has_ended:
            acknowledged = number
            pushes += 1
    with life(data) as server:
        push = _pushed(work, server.first["url"])
        if push.wait() != 0:
            raise SystemExit("the last push is refused")
        reached = server.until_reached(trials + 1)
    return {
        "benchmark": "gitops_kill_trials",
        "trials": trials,
        "seed": seed,
        "acknowledged_before_the_kill": pushes,
        "kills_between_stages": between_stages,
        "applied_though_not_acknowledged": applied_unacknowledged,
        "last_push_reached": reached == trials + 1,
        "seconds": round(time.monotonic() - began_s, 1),
    }


def main(directory: Path | None = None) -> None:
    run_program(run_trials, __doc__, directory)


if __name__ == "__main__":
    logs.configure(logs.LogSettings("ERROR"))
    main()
