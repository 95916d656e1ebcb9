"""From a change by hand to its recorded drift, beside many jobs that have not drifted.

Real git, the log and the state on disk; no node is there. Budget: 1 s after the change. Many
changes at once, and all jobs after a restart, are measured without a budget of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from orchgit.model.job import ChangedBy
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.benchmarks.gitops_commits import job_text, path_of, pushed
from tests.support.git_repos import WorkTree
from tests.support.gitops_rig import GitopsRig, gitops_rig

BUDGET_S = 1.0
MANY = 1_000
_NOBODY_WAITS_S = 300.0


def add_command(commands: Any) -> None:
    """Adds the sub-command `drift`."""
    parser = commands.add_parser("drift", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=50)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> bool:
    """Prints the measurements; returns whether all are within their budgets."""
    return asyncio.run(_measure(arguments.jobs, arguments.changes))


def _report(case: str, jobs: int, times_s: list[float], budget_s: float | None) -> bool:
    ordered = sorted(times_s)
    within = budget_s is None or ordered[-1] <= budget_s
    line = {
        "benchmark": "gitops drift",
        "case": case,
        "jobs": jobs,
        "samples": len(ordered),
        "p50_s": round(ordered[len(ordered) // 2], 4),
        "max_s": round(ordered[-1], 4),
        "budget_s": budget_s,
        "within_budget": within,
    }
    print(json.dumps(line), flush=True)
    return within


def _job_id(number: int) -> str:
    return f"service-{number:05}"


def _idle_job(name: str) -> str:
    return job_text(name).replace("count = 2", "count = 0")


async def _scale(rig: GitopsRig, number: int, count: int) -> None:
    request = ScaleRequest("web", count, changed_by=ChangedBy(via="scale", user="bench"))
    await scale_job(rig.context, "default", _job_id(number), request)


def _drifted(rig: GitopsRig) -> int:
    with rig.context.snapshot() as snapshot:
        return snapshot.drifted_jobs.counts().get("demo", 0)


async def _measure(jobs: int, changes: int) -> bool:
    with tempfile.TemporaryDirectory() as text:
        data, work = Path(text) / "data", WorkTree(Path(text) / "work")
        # Jobs without allocations are healthy at once, so that no rollout is under way.
        texts = {path_of(n): _idle_job(_job_id(n)) for n in range(jobs)}
        work.commit(texts, "All of them")
        async with gitops_rig(data) as rig:
            await rig.add_source()
            await pushed(rig, work)
            await rig.until(lambda: rig.rollouts()[0].is_terminal, _NOBODY_WAITS_S)
            times_s = []
            for number in range(changes):
                await _scale(rig, number, 3)
                changed_s = time.perf_counter()
                await rig.until(lambda number=number: _drifted(rig) == number + 1)
                times_s.append(time.perf_counter() - changed_s)
            fine = _report("one change", jobs, times_s, BUDGET_S)
            many = range(changes, min(jobs, changes + MANY))
            began_s = time.perf_counter()
            await asyncio.gather(*(_scale(rig, number, 3) for number in many))
            changed_s = time.perf_counter()
            await rig.until(lambda: _drifted(rig) == changes + len(many), _NOBODY_WAITS_S)
            ended_s = time.perf_counter()
            _report(
                f"{len(many)} changes at once, from the last", jobs, [ended_s - changed_s], None
            )
            _report(f"{len(many)} changes at once, from the first", jobs, [ended_s - began_s], None)
            await rig.gitops.stop()
            await _scale(rig, jobs - 1, 3)
        began_s = time.perf_counter()
        async with gitops_rig(data) as rig:
            await rig.until(lambda: _drifted(rig) == changes + len(many) + 1, _NOBODY_WAITS_S)
            _report("all jobs after a restart", jobs, [time.perf_counter() - began_s], None)
        return fine
