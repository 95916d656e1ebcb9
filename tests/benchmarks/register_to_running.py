"""From a job's registration over HTTP to its task's first instruction; budget p50 <= 0.12 s.

python -m tests.benchmarks.register_to_running [--jobs 30]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import httpx

from tests.benchmarks.gitops_push import wait_for_file
from tests.benchmarks.report import print_times
from tests.support.dev_server import dev_server

BUDGET_S = 0.12


def job_body(name: str, stamp: Path) -> dict[str, object]:
    script = f"echo $EPOCHREALTIME > {stamp}.new; mv {stamp}.new {stamp}"
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/bash", "args": ["-c", script]},
        "Resources": {"CPU": 20, "MemoryMB": 16},
    }
    return {"Job": {"ID": name, "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}}


def measure(jobs: int) -> list[float]:
    with tempfile.TemporaryDirectory() as text:
        root = Path(text)
        with (
            dev_server(root / "data", "-no-demo") as server,
            httpx.Client(base_url=server.address, trust_env=False) as http,
        ):
            took = []
            for number in range(jobs + 1):
                stamp = root / f"stamp-{number}"
                body = job_body(f"job{number}", stamp)
                began = time.time()
                http.put("/v1/jobs", json=body).raise_for_status()
                took.append(wait_for_file(stamp) - began)
            return took[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    print_times("register_to_running", measure(parser.parse_args().jobs), BUDGET_S)


if __name__ == "__main__":
    main()
