"""Many sources of few repositories, polled by HTTP, that do nothing.

Measured are how often each repository is asked for its refs in an interval, and the share of a
processor that the server and its git processes take. The repositories are served by a process of
its own.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.benchmarks.report import print_figure
from tests.support.git_repos import WorkTree, batch_job
from tests.support.git_servers import GitHttpServer
from tests.support.gitops_rig import GitopsRig, gitops_rig
from tests.support.pacing import pause
from tests.support.polling import until

BUDGET_CPU_SHARE = 0.1
SOURCES_OF_A_REPOSITORY = 5
INTERVAL_S = 15.0


def add_command(commands: Any) -> None:
    """Adds the sub-command `idle`."""
    parser = commands.add_parser("idle", description=__doc__)
    parser.add_argument("--sources", type=int, default=500)
    parser.add_argument("--intervals", type=int, default=4)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> bool:
    """Prints the measurement; returns whether it is within its budgets."""
    with tempfile.TemporaryDirectory() as text:
        return asyncio.run(_measure(Path(text), arguments.sources, arguments.intervals))


def serve_repositories(root: Path, pipe: Connection) -> None:
    """A git server of its own process; each message asks how many listings there were so far."""

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


async def _measure(directory: Path, sources: int, intervals: int) -> bool:
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
    is_within = asked <= 1.01 and share <= BUDGET_CPU_SHARE
    return print_figure(
        "gitops idle",
        is_within,
        sources=sources,
        repositories=repositories,
        listings_per_repository_and_interval=round(asked, 2),
        cpu_share=round(share, 3),
        budget_cpu_share=BUDGET_CPU_SHARE,
    )
