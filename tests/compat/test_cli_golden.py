"""The commands and flags of Nomad's command line are ours too, with its exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cli_golden import exit_checks, flag_checks, golden_file, group_checks

GOLDEN = Path(__file__).parents[1] / "golden" / "api" / "cli"
DIFFERENT = (
    # Lengths of time that servers read and refuse.
    "flag acl auth-method create -max-token-ttl",
    "flag acl auth-method update -max-token-ttl",
    # Needs no server here.
    "flag operator snapshot redact",
    # A flag that does not exist is an error everywhere.
    "exit operator gossip keyring generate: unknown flag",
    # Further arguments are warned of.
    "exit tls ca create: nine arguments",
)


@pytest.fixture(scope="module")
def commands() -> dict[str, dict[str, dict[str, object]]]:
    return dict(golden_file(GOLDEN, "commands.json"))


def test_every_command_and_flag_exists(
    commands: dict[str, dict[str, dict[str, object]]],
) -> None:
    found = [
        *group_checks(commands["groups"]),
        *flag_checks(commands["commands"], commands["general_flags"]),  # type: ignore[arg-type]
    ]
    wrong = [each for each in found if each.problem and not each.name.startswith(DIFFERENT)]
    assert wrong == []
    assert len(found) > 2500


@pytest.mark.long
def test_exit_codes_without_a_server_are_the_recorded_ones(
    commands: dict[str, dict[str, dict[str, object]]],
) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    found = list(exit_checks(commands["commands"], None))
    wrong = [each for each in found if each.problem and not each.name.startswith(DIFFERENT)]
    assert wrong == []
    assert len(found) > 700
