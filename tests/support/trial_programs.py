"""Programs that kill a process of their own again and again: their options; how tests run them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Trials = Callable[[Path, int, int], dict[str, object]]
"""(directory, number of trials, seed) -> what they found. A broken promise raises SystemExit."""


def run_program(run_trials: Trials, about: str | None, directory: Path | None = None) -> None:
    """Prints what the trials found as one line of JSON. Without `directory` the program takes it
    as its argument."""
    parser = argparse.ArgumentParser(description=about)
    if directory is None:
        parser.add_argument("directory", type=Path)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_007)
    arguments = parser.parse_args()
    directory = directory or arguments.directory
    sys.stdout.write(json.dumps(run_trials(directory, arguments.trials, arguments.seed)) + "\n")


def run_in_process(module: str, directory: Path, trials: int, seed: int) -> dict[str, Any]:
    """Returns what the program of that module found, in a process of its own, since it forks."""
    command = [sys.executable, "-m", module, str(directory)]
    done = subprocess.run(
        [*command, "--trials", str(trials), "--seed", str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
