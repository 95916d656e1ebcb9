"""Gitops on a large source: one sub-command for each question, one JSON line for each measurement.

python -m tests.benchmarks.gitops drift [--jobs 10000] [--changes 50]
"""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks import gitops_drift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    gitops_drift.add_command(commands)
    arguments = parser.parse_args()
    sys.exit(0 if arguments.run(arguments) else 1)


if __name__ == "__main__":
    main()
