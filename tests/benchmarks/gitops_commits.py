"""From `git push` to registered jobs: many new jobs in one commit, then one changed file of them.

Real git, real HTTP, the log and the state on disk; no scheduler competes. The first commit after a
restart has one parse too, but compares all jobs with the state again.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.report import print_figure
from tests.support.git_repos import WorkTree
from tests.support.gitops_rig import GitopsRig, gitops_rig

BUDGETS_S = {1_000: 1.5, 10_000: 13.0}
CHANGE_BUDGET_S = 0.4
RESTART_BUDGET_S = 5.0
FOLDERS = 100


def add_command(commands: Any) -> None:
    """Adds the sub-command `commits`."""
    parser = commands.add_parser("commits", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000, 10_000])
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> bool:
    """Prints the measurements; returns whether all are within their budgets."""
    fine = True
    for jobs in arguments.jobs:
        with tempfile.TemporaryDirectory() as text:
            fine &= asyncio.run(_measure(Path(text), jobs))
    return fine


def job_text(name: str, image: str = "1.0") -> str:
    """A service as people write them; no node is there to run it."""
    return f"""
job "{name}" {{
  datacenters = ["dc1"]

  group "web" {{
    count = 2

    network {{
      port "http" {{
        to = 8080
      }}
    }}

    service {{
      name     = "{name}"
      port     = "http"
      provider = "nomad"

      check {{
        type     = "http"
        path     = "/health"
        interval = "10s"
        timeout  = "2s"
      }}
    }}

    task "server" {{
      driver = "docker"

      config {{
        image = "registry.example.com/{name}:{image}"
        ports = ["http"]
      }}

      env {{
        LISTEN = "0.0.0.0:${{NOMAD_PORT_http}}"
      }}

      resources {{
        cpu    = 100
        memory = 64
      }}
    }}
  }}
}}
"""


def path_of(number: int) -> str:
    return f"jobs/{number % FOLDERS:02}/service-{number:05}.nomad.hcl"


async def pushed(rig: GitopsRig, work: WorkTree) -> tuple[float, int]:
    """Seconds until the push returned with the jobs registered, and files parsed."""
    rig.parser.parsed.clear()
    began = time.perf_counter()
    answer = await work.push(rig.url("demo"), "detach")
    took = time.perf_counter() - began
    if answer.returncode:
        raise SystemExit(f"cannot measure: the push failed\n{answer.output[-2000:]}")
    return took, len(rig.parser.parsed)


def _report(what: str, jobs: int, measured: tuple[float, int], budget_s: float, files: int) -> bool:
    """`files` is how many have to be parsed, no more and no fewer."""
    took_s, parsed = measured
    is_within = took_s <= budget_s and parsed == files
    figures = {"jobs": jobs, "seconds": round(took_s, 3), "parsed": parsed, "budget_s": budget_s}
    return print_figure("gitops commits", is_within, case=what, **figures)


def _all_jobs(directory: Path, jobs: int) -> WorkTree:
    """A repository with so many job files in one commit."""
    work = WorkTree(directory / "work")
    work.commit({path_of(n): job_text(f"service-{n:05}") for n in range(jobs)}, "All of them")
    return work


async def _measure(directory: Path, jobs: int) -> bool:
    work = _all_jobs(directory, jobs)
    async with gitops_rig(directory / "data", evaluate=False) as rig:
        await rig.add_source()
        measured = await pushed(rig, work)
        with rig.context.snapshot() as snapshot:
            registered = len(snapshot.jobs.all(None, ""))
        if registered != jobs:
            raise SystemExit(f"cannot measure: {registered} of {jobs} jobs are registered")
        fine = _report("all new", jobs, measured, BUDGETS_S.get(jobs, 60.0), jobs)
        for what in ("one changed", "one changed again"):
            measured = await _change_one(rig, work, jobs, what)
            fine &= _report(what, jobs, measured, CHANGE_BUDGET_S, 1)
    async with gitops_rig(directory / "data", evaluate=False) as rig:
        what = "one changed after a restart"
        measured = await _change_one(rig, work, jobs, what)
        return fine & _report(what, jobs, measured, RESTART_BUDGET_S, 1)


async def _change_one(rig: GitopsRig, work: WorkTree, jobs: int, what: str) -> tuple[float, int]:
    number = jobs // 2
    text = job_text(f"service-{number:05}", image=what)
    work.commit({path_of(number): text}, f"Change one: {what}")
    return await pushed(rig, work)
