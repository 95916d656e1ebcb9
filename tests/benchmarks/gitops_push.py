"""From the start of `git push` to the first instruction of the task, on a dev server."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.report import print_times
from tests.support.dev_server import dev_server, git
from tests.support.polling import until_blocking

BUDGET_S = 0.1


def add_command(commands: Any) -> None:
    """Adds the sub-command `push`."""
    parser = commands.add_parser("push", description=__doc__)
    parser.add_argument("--pushes", type=int, default=30)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> bool:
    """Prints the measurement; returns whether its median is within the budget."""
    with tempfile.TemporaryDirectory() as text:
        return _measure(Path(text), arguments.pushes)


def _stamping_job(name: str, stamp: Path) -> str:
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


def _measure(directory: Path, pushes: int) -> bool:
    with dev_server(directory / "data", "-no-demo") as server:
        server.cli("source", "add", "bench")
        git(directory, "clone", f"{server.address}/git/bench.git", "clone")
        clone = directory / "clone"
        git(clone, "checkout", "-B", "main")
        took = []
        for number in range(pushes + 1):
            stamp = directory / f"stamp-{number}"
            (clone / f"job{number}.nomad.hcl").write_text(_stamping_job(f"job{number}", stamp))
            git(clone, "add", "-A")
            git(clone, "commit", "-m", f"Push {number}")
            began = time.time()
            git(clone, "push", "-o", "detach", "origin", "main")
            took.append(wait_for_file(stamp) - began)
    return print_times("gitops push", took[1:], BUDGET_S)
