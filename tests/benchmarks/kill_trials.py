"""A server is killed with SIGKILL under load, and nothing acknowledged may be lost:

    python -m tests.benchmarks.kill_trials [--trials 1000] [--seed N]

One line of JSON at the end; exit status 1 and the reason at the first promise that was broken.
What is written and checked: tests/support/kill_trials.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support import kill_trials

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        kill_trials.main(Path(directory) / "data")
