"""The leader is killed with SIGKILL while it applies commits: none is half applied, none is lost.

    python -m tests.benchmarks.gitops_kill_trials [--trials 1000] [--seed N]

One line of JSON at the end; exit status 1 and the reason at the first promise that was broken.
What is pushed and checked: tests/support/gitops_kill_trials.py. A thousand trials take about seven
minutes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from orchgit import logs
from tests.support import gitops_kill_trials

if __name__ == "__main__":
    logs.configure(logs.LogSettings("ERROR"))
    with tempfile.TemporaryDirectory() as directory:
        gitops_kill_trials.main(Path(directory))
