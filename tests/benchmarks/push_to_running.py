"""From `git push` (process start) to the task's first instruction, 30 pushes; budget p50 <= 0.25 s.

python -m tests.benchmarks.push_to_running [--pushes 30]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.benchmarks.report import print_times
from tests.support.dev_server import dev_server, git
from tests.support.polling import until_blocking

BUDGET_S = 0.25


def job_text(name: str, stamp: Path) -> str:
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


def measure(pushes: int) -> list[float]:
    with tempfile.TemporaryDirectory() as text:
        root = Path(text)
        with dev_server(root / "data", "-no-demo") as server:
            server.cli("source", "add", "bench")
            git(root, "clone", f"{server.address}/git/bench.git", "clone")
            clone = root / "clone"
            git(clone, "checkout", "-B", "main")
            took = []
            for number in range(pushes + 1):
                stamp = root / f"stamp-{number}"
                (clone / f"job{number}.nomad.hcl").write_text(job_text(f"job{number}", stamp))
                git(clone, "add", "-A")
                git(clone, "commit", "-m", f"Push {number}")
                began = time.time()
                git(clone, "push", "-o", "detach", "origin", "main")
                took.append(wait_for_file(stamp) - began)
            return took[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pushes", type=int, default=30)
    print_times("push_to_running", measure(parser.parse_args().pushes), BUDGET_S)


if __name__ == "__main__":
    main()
