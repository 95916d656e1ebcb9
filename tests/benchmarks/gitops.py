"""From git to the cluster, measured: commits, pushes, drift, and sources that do nothing.

    python -m tests.benchmarks.gitops [commits] [push] [drift] [idle] [--jobs 1000 10000]
                                      [--pushes 30] [--changes 20] [--sources 500] [--intervals 3]

Real git, real HTTP, the log and the state on disk. One line of JSON for each figure, with its
budget; exit status 1 if one is missed. Without a name all four run, in about five minutes.

commits  new jobs in one commit, then one changed file of them; no scheduler competes. The first
         commit after a restart has one parse too, but compares all jobs with the state again.
push     from the start of `git push` to the first instruction of the task, on a dev server.
drift    from a change by hand to its record, among all those jobs.
idle     many sources of few repositories, polled by HTTP: how often each repository is asked, and
         the share of a processor that the server and its git processes take.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path

from orchgit import logs
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.benchmarks.report import print_times
from tests.support.dev_server import dev_server, git
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig
from tests.support.pacing import pause
from tests.support.polling import until, until_blocking

COMMIT_BUDGETS_S = {1_000: 1.5, 10_000: 13.0}
CHANGE_BUDGET_S = 0.4
RESTART_BUDGET_S = 5.0
PUSH_BUDGET_S = 0.1
DRIFT_BUDGET_S = 1.0
IDLE_BUDGET_SHARE = 0.1
FOLDERS = 100
SOURCES_OF_A_REPOSITORY = 5
INTERVAL_S = 15.0


def report(case: str, is_within: bool, **figures: object) -> bool:
    """Prints one figure; returns whether it is within its budget."""
    line = {"benchmark": "gitops", "case": case, **figures, "within_budget": is_within}
    print(json.dumps(line), flush=True)
    return is_within


# -- commits ---------------------------------------------------------------------------------------


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


def report_commit(
    what: str, jobs: int, measured: tuple[float, int], budget_s: float, files: int
) -> bool:
    """`files` is how many have to be parsed, no more and no fewer."""
    took_s, parsed = measured
    is_within = took_s <= budget_s and parsed == files
    figures = {"jobs": jobs, "seconds": round(took_s, 3), "parsed": parsed, "budget_s": budget_s}
    return report(what, is_within, **figures)


def all_jobs(directory: Path, jobs: int) -> WorkTree:
    """A repository with so many job files in one commit."""
    work = WorkTree(directory / "work")
    work.commit({path_of(n): job_text(f"service-{n:05}") for n in range(jobs)}, "All of them")
    return work


async def measure_commits(directory: Path, jobs: int) -> bool:
    work = all_jobs(directory, jobs)
    async with gitops_rig(directory / "data", evaluate=False) as rig:
        await rig.add_source()
        measured = await pushed(rig, work)
        with rig.context.snapshot() as snapshot:
            registered = len(snapshot.jobs.all(None, ""))
        if registered != jobs:
            raise SystemExit(f"cannot measure: {registered} of {jobs} jobs are registered")
        fine = report_commit("all new", jobs, measured, COMMIT_BUDGETS_S.get(jobs, 60.0), jobs)
        for what in ("one changed", "one changed again"):
            measured = await change_one(rig, work, jobs, what)
            fine &= report_commit(what, jobs, measured, CHANGE_BUDGET_S, 1)
    async with gitops_rig(directory / "data", evaluate=False) as rig:
        what = "one changed after a restart"
        measured = await change_one(rig, work, jobs, what)
        return fine & report_commit(what, jobs, measured, RESTART_BUDGET_S, 1)


async def change_one(rig: GitopsRig, work: WorkTree, jobs: int, what: str) -> tuple[float, int]:
    number = jobs // 2
    text = job_text(f"service-{number:05}", image=what)
    work.commit({path_of(number): text}, f"Change one: {what}")
    return await pushed(rig, work)


# -- push ------------------------------------------------------------------------------------------


def stamping_job(name: str, stamp: Path) -> str:
    """A batch job whose first instruction writes the time to `stamp`."""
    return f"""
job "{name}" {{
  type = "batch"
  group "g" {{
    task "t" {{
      driver = "raw_exec"
      config {{
        command = "/bin/bash"
        args    = ["-c", "echo $EPOCHREALTIME > {stamp}.new; mv {stamp}.new {stamp}"]
      }}
      resources {{
        cpu    = 20
        memory = 16
      }}
    }}
  }}
}}
"""


def wait_for_file(path: Path, timeout_s: float = 10.0) -> float:
    """The moment the task wrote; polling here costs nothing, the task itself took the time."""
    until_blocking(path.exists, timeout_s, f"cannot measure: {path} was not written", every_s=0.005)
    return float(path.read_text())


def measure_pushes(directory: Path, pushes: int) -> bool:
    with dev_server(directory / "data", "-no-demo") as server:
        server.cli("source", "add", "bench")
        git(directory, "clone", f"{server.address}/git/bench.git", "clone")
        clone = directory / "clone"
        git(clone, "checkout", "-B", "main")
        took = []
        for number in range(pushes + 1):
            stamp = directory / f"stamp-{number}"
            (clone / f"job{number}.nomad.hcl").write_text(stamping_job(f"job{number}", stamp))
            git(clone, "add", "-A")
            git(clone, "commit", "-m", f"Push {number}")
            began = time.time()
            git(clone, "push", "-o", "detach", "origin", "main")
            took.append(wait_for_file(stamp) - began)
    return print_times("gitops", took[1:], PUSH_BUDGET_S, case="push to running")


# -- drift -----------------------------------------------------------------------------------------


async def measure_drift(directory: Path, jobs: int, changes: int) -> bool:
    """Changes one job after the other by hand."""
    work = all_jobs(directory, jobs)
    async with gitops_rig(directory / "data", evaluate=False) as rig:
        await rig.add_source()
        await pushed(rig, work)
        took = []
        for number in range(changes):
            name = f"service-{number * (jobs // changes):05}"

            def is_seen(name: str = name) -> bool:
                with rig.context.snapshot() as snapshot:
                    return snapshot.drifted_jobs.get("default", name) is not None

            began = time.perf_counter()
            await scale_job(rig.context, "default", name, ScaleRequest("web", 3))
            await rig.until(is_seen)
            took.append(time.perf_counter() - began)
    return print_times("gitops", took, DRIFT_BUDGET_S, case="drift seen", jobs=jobs)


# -- idle ------------------------------------------------------------------------------------------


def serve_repositories(root: Path, pipe: Connection) -> None:
    """A git server of its own process; each message asks how many listings there were so far."""
    from tests.support.git_servers import GitHttpServer

    async def serve() -> None:
        async with GitHttpServer(root).running() as server:
            pipe.send(server.origin)
            while await asyncio.to_thread(pipe.recv):
                pipe.send(server.listings)

    asyncio.run(serve())


def cpu_s() -> float:
    """Of this process and its git processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


async def measure_idle(directory: Path, sources: int, intervals: int) -> bool:
    repositories = max(1, sources // SOURCES_OF_A_REPOSITORY)
    for number in range(repositories):
        work = WorkTree(directory / "repositories" / f"{number}.git")
        work.commit({f"{n}/a.hcl": batch_job(f"job-{number}-{n}") for n in range(5)}, "One")
    pipe, far_end = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve_repositories, args=(directory / "repositories", far_end)
    )
    server.start()
    try:
        origin = await asyncio.to_thread(pipe.recv)
        async with gitops_rig(directory / "data", evaluate=False) as rig:
            for number in range(sources):
                url = f"{origin}/{number % repositories}.git/.git"
                place = [f"{number // repositories}/*.hcl"]
                await rig.add_source(f"s{number}", kind="remote", url=url, paths=place)
            await until(lambda: _all_applied(rig, sources), 600.0, "not all sources are applied")
            await pause(INTERVAL_S, "the first polls spread over an interval")
            return await _watch_idle(pipe, repositories, sources, intervals)
    finally:
        pipe.send(False)
        server.join(5)
        server.kill()


def _all_applied(rig: GitopsRig, sources: int) -> bool:
    with rig.context.snapshot() as snapshot:
        found = snapshot.sources.all()
    return len(found) == sources and all(each.status.applied_commit for each in found)


async def _watch_idle(pipe: Connection, repositories: int, sources: int, intervals: int) -> bool:
    async def listings() -> int:
        pipe.send(True)
        return int(await asyncio.to_thread(pipe.recv))

    before, began_cpu_s, began_s = await listings(), cpu_s(), time.monotonic()
    await pause(intervals * INTERVAL_S, "the time that is measured")
    took_s = time.monotonic() - began_s
    share = (cpu_s() - began_cpu_s) / took_s
    asked = (await listings() - before) / repositories / (took_s / INTERVAL_S)
    is_within = asked <= 1.01 and share <= IDLE_BUDGET_SHARE
    return report(
        "idle",
        is_within,
        sources=sources,
        repositories=repositories,
        listings_per_repository_and_interval=round(asked, 2),
        cpu_share=round(share, 3),
        budget_cpu_share=IDLE_BUDGET_SHARE,
    )


# -- all of them -----------------------------------------------------------------------------------


def in_directory(work: Callable[[Path], Awaitable[bool]]) -> bool:
    with tempfile.TemporaryDirectory() as text:
        return asyncio.run(work(Path(text)))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--pushes", type=int, default=30)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--sources", type=int, default=500)
    parser.add_argument("--intervals", type=int, default=3)
    options = parser.parse_args()
    logs.configure(logs.LogSettings("WARN"))
    fine = [CASES[case](options) for case in options.cases or CASES]
    sys.exit(0 if all(fine) else 1)


def run_commits(options: argparse.Namespace) -> bool:
    return all(
        [in_directory(lambda at, jobs=jobs: measure_commits(at, jobs)) for jobs in options.jobs]
    )


def run_push(options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as text:
        return measure_pushes(Path(text), options.pushes)


def run_drift(options: argparse.Namespace) -> bool:
    return in_directory(lambda at: measure_drift(at, max(options.jobs), options.changes))


def run_idle(options: argparse.Namespace) -> bool:
    return in_directory(lambda at: measure_idle(at, options.sources, options.intervals))


CASES: dict[str, Callable[[argparse.Namespace], bool]] = {
    "commits": run_commits,
    "push": run_push,
    "drift": run_drift,
    "idle": run_idle,
}


if __name__ == "__main__":
    main()
