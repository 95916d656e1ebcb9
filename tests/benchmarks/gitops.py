"""From git to the cluster, measured: one sub-command for each question, one line of JSON for each
figure with its budget; exit status 1 if one is missed.

    python -m tests.benchmarks.gitops commits [--jobs 1000 10000]
    python -m tests.benchmarks.gitops push    [--pushes 30]
    python -m tests.benchmarks.gitops drift   [--jobs 10000] [--changes 50]
    python -m tests.benchmarks.gitops idle    [--sources 500] [--intervals 4]
"""

from __future__ import annotations

import argparse
import sys

from orchgit import logs
from tests.benchmarks import gitops_commits, gitops_drift, gitops_idle, gitops_push


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for each in (gitops_commits, gitops_push, gitops_drift, gitops_idle):
        each.add_command(commands)
    arguments = parser.parse_args()
    logs.configure(logs.LogSettings("ERROR"))
    sys.exit(0 if arguments.run(arguments) else 1)


if __name__ == "__main__":
    main()
