"""Variables on the command line, and through `kill -9`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.dev_server import DevServer, dev_server

KILLS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with dev_server(tmp_path_factory.mktemp("vars") / "data", "-no-demo") as found:
        yield found


def put_secret(server: DevServer, path: str, value: str) -> None:
    """Through standard input, as secrets should come."""
    done = subprocess.run(
        [sys.executable, "-m", "orchgit", "var", "put", "-address", server.address, path, "-"],
        input=json.dumps({"password": value}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert value not in done.stdout + done.stderr


def test_variable_commands_put_get_list_and_purge(server: DevServer) -> None:
    put_secret(server, "app/db", "pass[word]")
    again = server.cli("var", "put", "app/db", "password=other-secret")
    assert again.code == 1
    assert "locked, or not at the expected check index" in again.err
    assert "pass[word]" not in again.text
    index = server.cli_json("var", "get", "app/db")["ModifyIndex"]
    assert server.cli("var", "put", "-check-index", str(index), "app/db", "a=b=c").code == 0
    assert server.cli("var", "put", "-force", "app/db", "a=d", "e=").code == 0
    assert server.cli("var", "get", "-item", "a", "app/db").out == "d\n"
    shown = server.cli("var", "get", "app/db").out
    assert "app/db" in shown
    assert "Check Index" in shown
    assert "app/db" in server.cli("var", "list", "app/").out
    assert server.cli("var", "purge", "app/db").code == 0
    assert server.cli("var", "get", "app/db").code == 1


def test_command_runs_under_a_lock(server: DevServer) -> None:
    read = f"{sys.executable} -m orchgit var list -address {server.address} locks/"
    done = server.cli("var", "lock", "locks/one", "/bin/sh", "-c", f"{read}; exit 7")
    assert done.code == 7, done.text
    assert "yes" in done.out
    assert "Lock" not in server.cli_json("var", "get", "locks/one")
    missing = server.cli("var", "lock", "locks/one", "/nowhere")
    assert "cannot run '/nowhere'" in missing.err


def test_keyring_is_listed_and_rotated(server: DevServer) -> None:
    put_secret(server, "kept/one", "before")
    [old] = server.cli_json("operator", "root", "keyring", "list")
    assert server.cli("operator", "root", "keyring", "rotate", "-full").code == 0
    assert server.cli("operator", "root", "keyring", "remove", old["KeyID"]).code == 0
    assert "active" in server.cli("operator", "root", "keyring", "list").out
    assert server.cli("var", "get", "-item", "password", "kept/one").out == "before\n"


@pytest.mark.long
def test_acknowledged_variable_survives_kill_9(tmp_path: Path) -> None:
    """Each round kills the server under a writer; what it was told is stored can be read."""
    acknowledged: dict[str, str] = {}
    with dev_server(tmp_path / "data", "-no-demo") as server:
        for number in range(KILLS):
            wrote = threading.Event()
            writer = threading.Thread(target=_write, args=(server, number, acknowledged, wrote))
            writer.start()
            assert wrote.wait(30)
            server.kill9()
            writer.join()
            server.start()
            assert acknowledged.items() <= _secrets(server).items()
        assert "secret-" not in server.output
    raw = b"".join(
        file.read_bytes().rstrip(b"\0") for file in tmp_path.rglob("*") if file.is_file()
    )
    assert b"secret-" not in raw


def _secrets(server: DevServer) -> dict[str, str]:
    with httpx.Client(base_url=server.address, trust_env=False, timeout=10) as http:
        paths = [each["Path"] for each in http.get("/v1/vars?prefix=kill/").json()]
        return {path: http.get(f"/v1/var/{path}").json()["Items"]["secret"] for path in paths}


def _write(
    server: DevServer, number: int, acknowledged: dict[str, str], wrote: threading.Event
) -> None:
    """Until the server is gone; says so when some writes were acknowledged."""
    with httpx.Client(base_url=server.address, trust_env=False, timeout=10) as http:
        for count in range(100_000):
            path, value = f"kill/{number}/{count}", f"secret-{number}-{count}"
            try:
                answer = http.put(f"/v1/var/{path}?cas=0", json={"Items": {"secret": value}})
            except httpx.TransportError:
                return
            if answer.status_code == 200:
                acknowledged[path] = value
            if count == 20 * (number + 1):
                wrote.set()
