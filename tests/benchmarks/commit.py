"""From `git push` to registered jobs: many new jobs in one commit, then one changed file of them.

python -m tests.benchmarks.commit [--jobs 1000 10000]

Real git, real HTTP, the log and the state on disk; no scheduler competes. One JSON line each.
Budgets: 1,000 new jobs 5 s, 10,000 new jobs 60 s, one changed file of 10,000 0.5 s with one parse.
The first commit after a restart has one parse too, but compares all jobs with the state again: 5 s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.support.git_repos import WorkTree
from tests.support.gitops_rig import GitopsRig, gitops_rig

BUDGETS_S = {1_000: 5.0, 10_000: 60.0}
CHANGE_BUDGET_S = 0.5
RESTART_BUDGET_S = 5.0
FOLDERS = 100


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


def report(what: str, jobs: int, took: float, parsed: int, budget_s: float, wanted: int) -> bool:
    within = took <= budget_s and parsed == wanted
    line = {
        "benchmark": "commit",
        "case": what,
        "jobs": jobs,
        "seconds": round(took, 3),
        "parsed": parsed,
        "budget_s": budget_s,
        "within_budget": within,
    }
    print(json.dumps(line), flush=True)
    return within


async def measure(jobs: int) -> bool:
    with tempfile.TemporaryDirectory() as text:
        work = WorkTree(Path(text) / "work")
        work.commit({path_of(n): job_text(f"service-{n:05}") for n in range(jobs)}, "All of them")
        async with gitops_rig(Path(text) / "data", evaluate=False) as rig:
            await rig.add_source()
            took, parsed = await pushed(rig, work)
            with rig.context.snapshot() as snapshot:
                registered = len(snapshot.jobs.all(None, ""))
            if registered != jobs:
                raise SystemExit(f"cannot measure: {registered} of {jobs} jobs are registered")
            fine = report("all new", jobs, took, parsed, BUDGETS_S.get(jobs, 60.0), jobs)
            fine &= await changed(rig, work, jobs, "one changed")
            fine &= await changed(rig, work, jobs, "one changed again")
        async with gitops_rig(Path(text) / "data", evaluate=False) as rig:
            what = "one changed after a restart"
            fine &= await changed(rig, work, jobs, what, RESTART_BUDGET_S)
        return fine


async def changed(
    rig: GitopsRig, work: WorkTree, jobs: int, what: str, budget_s: float = CHANGE_BUDGET_S
) -> bool:
    number = jobs // 2
    text = job_text(f"service-{number:05}", image=what)
    work.commit({path_of(number): text}, f"Change one: {what}")
    took, parsed = await pushed(rig, work)
    return report(what, jobs, took, parsed, budget_s, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000, 10_000])
    fine = [asyncio.run(measure(jobs)) for jobs in parser.parse_args().jobs]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
