"""What a server tells the others of where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.errors import InvalidInputError
from orchgit.server.config import ServerConfig
from orchgit.server.membership.addresses import advertised


@pytest.mark.parametrize(
    ("bound", "given", "told"),
    [
        ("10.0.0.1:4647", "", "10.0.0.1:4647"),
        ("10.0.0.1:4647", "db1.example", "db1.example:4647"),
        ("0.0.0.0:4647", "10.0.0.9", "10.0.0.9:4647"),
        ("0.0.0.0:4647", "10.0.0.9:5000", "10.0.0.9:5000"),
        ("[::]:4647", "fd00::1", "[fd00::1]:4647"),
        ("[::]:4647", "[fd00::1]", "[fd00::1]:4647"),
        ("[::]:4647", "[fd00::1]:5000", "[fd00::1]:5000"),
    ],
)
def test_advertised_address_is_the_given_or_the_bound_one(
    bound: str, given: str, told: str
) -> None:
    assert advertised("rpc", bound, given) == told


@pytest.mark.parametrize("given", ["0.0.0.0", "[::]:4647", "host:port", ":4647", "host:99999"])
def test_advertised_address_that_cannot_be_reached_is_refused(given: str) -> None:
    with pytest.raises(InvalidInputError, match=r"advertise\.rpc"):
        advertised("rpc", "0.0.0.0:4647", given)


def test_raft_address_is_that_of_serf(tmp_path: Path) -> None:
    config = ServerConfig(data_dir=tmp_path, raft_bind="0.0.0.0:4648", raft_advertise="10.0.0.1")
    assert config.raft_address == "10.0.0.1:4648"


def test_bad_raft_bind_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="serf"):
        ServerConfig(data_dir=tmp_path, raft_bind="nowhere")
