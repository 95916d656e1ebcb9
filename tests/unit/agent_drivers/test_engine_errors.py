"""What is wrong with an engine is said in the system's words."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from agent.drivers.docker.engine import Engine
from orchgit.errors import DriverError
from tests.support.ports import free_ports


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # by the SDK, where it fails
def test_engine_that_is_not_there_is_named_with_the_systems_words(tmp_path: Path) -> None:
    dead = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(dead))
    (port,) = free_ports(1)
    for endpoint, said in (
        (f"unix://{tmp_path}/none.sock", "No such file or directory"),
        (f"unix://{dead}", "Connection refused"),
        (f"tcp://127.0.0.1:{port}", "Connection refused"),
    ):
        with pytest.raises(DriverError) as caught:
            Engine(endpoint)
        assert str(caught.value) == f"cannot reach the docker engine at {endpoint}: {said}"
        assert caught.value.recoverable
