"""Many job files in one process of their own, so that memory and collector are its own too.

    python -m tests.benchmarks.jobspec_many one_core|two_cores|held [--files 10000]

`one_core`: from a tree to jobs, on one processor. `two_cores`: the same by the pool on two, its
start included. `held`: memory that the jobs take, and what a known file costs, in memory and from
disk after a restart. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from orchgit.collector import settle_collector
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.cache import ParseCache
from orchgit.gitops.parsing.discovery import Discoverer
from orchgit.gitops.parsing.disk_cache import DiskParseCache
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.gitops.parsing.process import ParseLimits
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.model.source import Source
from tests.benchmarks.gitops_commits import job_text, path_of

MIB = 1024 * 1024
SOURCE = Source(name="demo")


def tree_of(count: int) -> MemoryTree:
    files = {path_of(n): job_text(f"service-{n:05}").encode() for n in range(count)}
    return MemoryTree(files, GitLimits(max_job_files=count))


def read(tree: MemoryTree, discoverer: Discoverer, count: int) -> float:
    began = time.perf_counter()
    found = discoverer.discover(tree, SOURCE)
    took = time.perf_counter() - began
    if len(found.jobs) != count or found.problems:
        raise SystemExit(f"cannot measure: {len(found.jobs)} jobs, {found.problems[:1]}")
    return took


def pinned(processors: int) -> int:
    """Use so many processors at most, for this process and its children."""
    chosen = sorted(os.sched_getaffinity(0))[:processors]
    os.sched_setaffinity(0, chosen)
    return len(chosen)


def one_core(count: int) -> dict[str, Any]:
    pinned(1)
    tree = tree_of(count)
    processor = time.process_time()
    took = read(tree, Discoverer(JobspecParser()), count)
    return {
        "one_core_s": round(took, 2),
        "one_core_cpu_s": round(time.process_time() - processor, 2),
    }


def two_cores(count: int) -> dict[str, Any]:
    processes = pinned(2)
    tree = tree_of(count)
    pool = ParsePool(ParseLimits(parse_processes=processes))
    cold = read(tree, Discoverer(JobspecParser(pool)), count)
    warm = read(tree, Discoverer(JobspecParser(pool)), count)
    pool.close()
    used = time.process_time() + sum(os.times()[2:4])
    return {
        "two_cores_s": round(cold, 2),
        "two_cores_warm_s": round(warm, 2),
        "two_cores_cpu_s": round(used / 2 / processes, 2),
    }


def held(count: int) -> dict[str, Any]:
    tree = tree_of(count)
    parser = JobspecParser()
    parser.version  # noqa: B018 - computed once in a server's life
    settle_collector()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parsed.sqlite"
        before = resident_bytes()
        store = DiskParseCache(path, 256 * MIB)
        discoverer = Discoverer(parser, ParseCache(store))
        read(tree, discoverer, count)
        gc.collect()
        taken = resident_bytes() - before
        known = min(read(tree, discoverer, count) for _ in range(5))
        store.close()
        restarted = []
        for _ in range(3):
            store = DiskParseCache(path, 256 * MIB)
            restarted.append(read(tree, Discoverer(parser, ParseCache(store)), count))
            store.close()
    return {
        "held_mib": round(taken / MIB, 1),
        "cached_us": round(known / count * 1e6, 2),
        "cached_on_disk_us": round(min(restarted) / count * 1e6, 1),
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CASES = {"one_core": one_core, "two_cores": two_cores, "held": held}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("case", choices=CASES)
    options.add_argument("--files", type=int, default=10_000)
    given = options.parse_args()
    print(json.dumps(CASES[given.case](given.files)))


if __name__ == "__main__":
    main()
