"""Thousands of pushes of several clients while everything else goes on: none is lost.

    python -m tests.benchmarks.gitops_push_load [--pushes 10000] [--clients 4] [--seed 1]

One line of JSON at the end; see tests/support/gitops_push_load.py. Ten thousand pushes take about
half an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

from orchgit import logs
from tests.support.gitops_push_load import run_load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pushes", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logs.configure(logs.LogSettings("ERROR"))
    with tempfile.TemporaryDirectory() as directory:
        load = run_load(Path(directory), options.pushes, options.clients, options.seed)
        found = asyncio.run(load)
    print(json.dumps({"benchmark": "gitops_push_load", "seed": options.seed, **found}))


if __name__ == "__main__":
    main()
