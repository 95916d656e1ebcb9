"""git gets the token of the command line for the cluster's servers, and for nobody else."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from orchgit.cli.commands.git_credential import credential_for, git_credential

GIVEN = ["username=orchgit", "password=t0k3n"]
SERVERS = ["https://10.0.0.1:4646", "https://orchgit.example"]


@pytest.mark.parametrize(
    ("protocol", "host", "given"),
    [
        ("https", "10.0.0.1:4646", True),
        ("https", "ORCHGIT.example", True),
        ("http", "10.0.0.1:4646", False),
        ("https", "10.0.0.1", False),
        ("https", "10.0.0.1:4646.evil.example", False),
        ("https", "github.com", False),
    ],
)
def test_token_is_given_to_the_servers_only(protocol: str, host: str, given: bool) -> None:
    asked = {"protocol": protocol, "host": host}
    assert credential_for(asked, SERVERS, "t0k3n") == (GIVEN if given else [])


def test_nothing_is_given_without_a_token_or_a_host() -> None:
    assert credential_for({"protocol": "https", "host": "10.0.0.1:4646"}, SERVERS, "") == []
    assert credential_for({}, SERVERS, "t0k3n") == []


@pytest.mark.parametrize(("operation", "lines"), [("get", GIVEN), ("store", []), ("erase", [])])
def test_git_is_answered_when_it_asks(operation: str, lines: list[str]) -> None:
    done = CliRunner().invoke(
        git_credential,
        [operation],
        input="protocol=https\nhost=10.0.0.1:4646\n\n",
        env={"ORCHGIT_ADDR": ",".join(SERVERS), "ORCHGIT_TOKEN": "t0k3n"},
    )
    assert done.exit_code == 0
    assert done.output.splitlines() == lines
