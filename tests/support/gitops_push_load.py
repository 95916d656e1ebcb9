"""Pushes from several clients while the source is reconciled and its leader and jobs change.

`run_load` returns one line's figures, or fails at the first acknowledged push that is lost: its
commit is neither applied nor an ancestor of the applied one, or a rollout that was recorded for it
is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from orchgit.errors import OrchgitError
from orchgit.services.gitops.sources import change_source
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import CountingParser, GitopsRig, gitops_rig
from tests.support.pacing import pause

_REFUSED_AS_BEHIND = ("fetch first", "non-fast-forward", "does not descend", "moved")


@dataclass
class Load:
    """What the clients have done so far."""

    wanted: int
    chance: random.Random
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    acknowledged: list[str] = field(default_factory=list)
    behind: int = 0
    """Pushes that were refused because another client was faster."""
    disturbances: int = 0
    on_acknowledged: Callable[[int], None] = lambda count: None
    """Called with the number of acknowledged pushes, after each."""

    def acknowledge(self, commit: str) -> None:
        """Notes a push that the server took."""
        self.acknowledged.append(commit)
        self.on_acknowledged(len(self.acknowledged))

    @property
    def is_over(self) -> bool:
        return len(self.acknowledged) >= self.wanted


async def run_load(
    directory: Path,
    pushes: int,
    clients: int = 4,
    seed: int = 1,
    on_acknowledged: Callable[[int], None] = lambda count: None,
) -> dict[str, int]:
    """Pushes until so many pushes are acknowledged."""
    load = Load(pushes, random.Random(seed), on_acknowledged=on_acknowledged)
    began_s = time.monotonic()
    async with gitops_rig(directory / "data", parser=CountingParser()) as rig:
        await rig.add_source()
        works = [WorkTree(directory / f"client-{number}") for number in range(clients)]
        others = [_changing_leader(rig, load), _changing_by_hand(rig, load), _waking(rig, load)]
        tasks = [asyncio.create_task(other) for other in others]
        try:
            await asyncio.gather(*(_pushing(rig, load, work, n) for n, work in enumerate(works)))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await rig.gitops.start()
        await rig.gitops.sync("demo")
        lost = await _lost(rig, load)
    assert not lost, f"acknowledged, but not applied: {lost}"
    return {
        "pushes": len(load.acknowledged),
        "refused_as_behind": load.behind,
        "disturbances": load.disturbances,
        "lost": len(lost),
        "seconds": round(time.monotonic() - began_s),
    }


async def _pushing(rig: GitopsRig, load: Load, work: WorkTree, client: int) -> None:
    """One client, with a job of its own: pushes on top of what the others pushed."""
    url = rig.url("demo")
    while not load.is_over:
        number = next(load.numbers)
        work.write({f"client-{client}.nomad.hcl": batch_job(f"client-{client}", text=f"{number}")})
        await work.run("add", "--all")
        await work.run("commit", "--quiet", "--message", f"Push {number}")
        answer = await work.push(url, "detach")
        if answer.returncode == 0:
            load.acknowledge((await work.run("rev-parse", "HEAD")).output.strip())
            continue
        if any(text in answer.output for text in _REFUSED_AS_BEHIND):
            load.behind += 1
        await work.run("fetch", "--quiet", url, "main")
        await work.run("reset", "--quiet", "--hard", "FETCH_HEAD")


async def _changing_leader(rig: GitopsRig, load: Load) -> None:
    """The loops of the leader end and begin again, as when it loses and gains the lead."""
    while True:
        await pause(load.chance.uniform(0.2, 1.0), "the time between changes of the leader")
        await rig.gitops.stop()
        await rig.gitops.start()
        load.disturbances += 1


async def _changing_by_hand(rig: GitopsRig, load: Load) -> None:
    """Jobs are scaled, and settings that change nothing are stored."""
    while True:
        await pause(load.chance.uniform(0.05, 0.3), "the time between changes by hand")
        try:
            name = f"client-{load.chance.randrange(4)}"
            await scale_job(rig.context, "default", name, ScaleRequest("main", 0))
            await change_source(rig.context, "demo", lambda source: source)
        except OrchgitError:
            continue  # there is no such job yet, or another was faster
        load.disturbances += 1


async def _waking(rig: GitopsRig, load: Load) -> None:
    """Rounds of the source all the time."""
    while True:
        await pause(load.chance.uniform(0.0, 0.05), "the time between rounds")
        rig.gitops.wake("demo", "api", force=True)


async def _lost(rig: GitopsRig, load: Load) -> list[str]:
    """Acknowledged commits that the applied one does not contain, or that no rollout applied."""
    repository = rig.gitops.mirrors.get("demo").open()
    applied = rig.source().status.applied_commit
    rolled_out = {rollout.commit.id for rollout in rig.rollouts() if rollout.was_applied}
    return [
        commit
        for commit in load.acknowledged
        if not repository.is_descendant(applied, commit) or commit not in rolled_out
    ]
