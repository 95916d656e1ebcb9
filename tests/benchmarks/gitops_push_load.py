"""Thousands of pushes of several clients while everything else goes on: none is lost.

    python -m tests.benchmarks.gitops_push_load [--pushes 10000] [--clients 4] [--seed 1]

One line of JSON at the end; see tests/support/gitops_push_load.py. After every 500 pushes a line on
stderr tells their rate and the process's memory. Ten thousand pushes take about an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import psutil

from orchgit import logs
from tests.support.gitops_push_load import run_load

_REPORT_EVERY = 500


class Progress:
    """Tells on stderr how fast the pushes are and how much memory the process has."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def acknowledged(self, count: int) -> None:
        if count % _REPORT_EVERY:
            return
        spent_s, self._began_s = time.monotonic() - self._began_s, time.monotonic()
        rss_mib = psutil.Process().memory_info().rss >> 20
        rate = 60 * _REPORT_EVERY / spent_s
        print(f"{count} pushes, {rate:.0f}/min, rss {rss_mib} MiB", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pushes", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logs.configure(logs.LogSettings("ERROR"))
    with tempfile.TemporaryDirectory() as directory:
        progress = Progress().acknowledged
        load = run_load(Path(directory), options.pushes, options.clients, options.seed, progress)
        found = asyncio.run(load)
    print(json.dumps({"benchmark": "gitops_push_load", "seed": options.seed, **found}))


if __name__ == "__main__":
    main()
