"""Compare our commands with recorded ones: `python tests/scenarios/run_cli_golden.py DIR
[--addr URL]`.

DIR holds commands.json (names, flags, exit codes) and outputs.json (tables and keys on a scenario).
Without an address, a server of our own is started for the scenario. The last line is `N passed, N
failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.support.cli_golden import (
    Check,
    exit_checks,
    flag_checks,
    golden_file,
    group_checks,
    output_checks,
)
from tests.support.cli_scenario import play
from tests.support.dev_server import ApiUser, dev_server


def checks(directory: Path, address: str) -> Iterator[Check]:
    commands = golden_file(directory, "commands.json")
    yield from group_checks(commands["groups"])
    yield from flag_checks(commands["commands"], commands["general_flags"])
    outputs = directory / "outputs.json"
    if outputs.exists():
        user = ApiUser()
        user.address, user.token = address, os.environ.get("ORCHGIT_TOKEN", "")
        yield from output_checks(golden_file(directory, "outputs.json"), play(user), address)
    yield from exit_checks(commands["commands"], address)


def report(directory: Path, address: str, kinds: str) -> int:
    passed = failed = 0
    for check in checks(directory, address):
        if not check.name.startswith(tuple(kinds.split(","))):
            continue
        passed += not check.problem
        failed += bool(check.problem)
        if check.problem:
            print(f"{check.name}: {check.problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--addr", help="An empty server; ORCHGIT_TOKEN: a management token.")
    parser.add_argument("--kinds", default="group,flag,exit,output")
    given = parser.parse_args()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # no command reads standard input
    if given.addr:
        return report(given.directory, given.addr, given.kinds)
    with tempfile.TemporaryDirectory() as data:
        config = Path(data) / "acl.hcl"
        config.write_text("acl { enabled = true }\n")
        with dev_server(Path(data), "-no-demo", "-config", str(config)) as server:
            made = httpx.post(f"{server.address}/v1/acl/bootstrap", trust_env=False).json()
            os.environ["ORCHGIT_TOKEN"] = made["SecretID"]
            return report(given.directory, server.address, given.kinds)


if __name__ == "__main__":
    sys.exit(main())
