"""Nomad's own Go client, unmodified, against a real server and agent.

It is fetched by Go's package manager and built outside the repository. Where there is no Go, or the
module cannot be fetched, the test says that it was skipped.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server_rig import server_rig

SOURCE = Path(__file__).parent / "go_client" / "main.go"
MODULE = "github.com/hashicorp/nomad/api@v0.0.0-20260907080526-08ef8f3d26da"
FETCH_TIMEOUT_S = 60
BUILD_TIMEOUT_S = 300


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("there is no Go to build Nomad's client with")
    directory = tmp_path_factory.mktemp("go-client")
    shutil.copy(SOURCE, directory)
    _go(directory, "mod", "init", "client")
    try:
        fetched = _go(directory, "get", MODULE, timeout_s=FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"Nomad's Go client was not fetched within {FETCH_TIMEOUT_S} s")
    if fetched.returncode != 0:
        pytest.skip(f"Nomad's Go client cannot be fetched: {fetched.stderr.strip()}")
    built = _go(directory, "build", "-o", "client", ".")
    assert built.returncode == 0, built.stderr
    return directory / "client"


def _go(
    directory: Path, *arguments: str, timeout_s: int = BUILD_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["go", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_unmodified_nomad_go_client_passes_its_calls(client: Path, tmp_path: Path) -> None:
    with server_rig(tmp_path) as rig:
        rig.wait_ready_node()
        address = str(rig.http.base_url).rstrip("/")
        done = subprocess.run(
            [client, address], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, f"after {done.stdout.splitlines()[-1:]}: {done.stderr[:2000]}"
    assert done.stdout.splitlines()[-1] == "deregister"
