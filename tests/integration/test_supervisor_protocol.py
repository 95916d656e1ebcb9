"""The supervisor's socket: who may speak, and what nonsense does to it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.supervisor.client import SupervisorClient
from agent.supervisor.codec import frame, take_frame
from agent.supervisor.protocol import TaskReport
from orchgit.errors import UnavailableError
from tests.support.supervised import run, spec, start_changed_supervisor


def connect(directory: Path) -> socket.socket:
    fd = os.open(directory / "supervisor", os.O_PATH)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(f"/proc/self/fd/{fd}/supervisor.sock")
    os.close(fd)
    return sock


def answers(sock: socket.socket, data: bytes) -> list[object]:
    """What comes back until the peer hangs up."""
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    buffer, messages = bytearray(), []
    while piece := sock.recv(65536):
        buffer += piece
    while (message := take_frame(buffer)) is not None:
        messages.append(message)
    return messages


def ask(directory: Path, *requests: dict[str, object]) -> list[object]:
    with connect(directory) as sock:
        return answers(sock, b"".join(frame(request) for request in requests))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"op": "fly"}, "cannot do 'fly': no such command"),
        ({}, "cannot do None"),
        ({"op": "start"}, "spec"),
        ({"op": "start", "spec": 3}, "the spec is no map"),
        ({"op": "start", "spec": {}}, "key"),
        ({"op": "stop", "key": "none", "signal": 15, "grace_ms": 1}, "cannot find task none"),
        ({"op": "signal", "key": "none", "signal": 15}, "cannot find task none"),
        ({"op": "ack"}, "key"),
    ],
)
def test_invalid_requests_are_answered_with_an_error(
    tmp_path: Path, request_: dict[str, object], error: str
) -> None:
    async def scenario(client: SupervisorClient) -> None:
        (answer,) = await asyncio.to_thread(ask, tmp_path, {"id": 7, **request_})
        assert isinstance(answer, dict)
        assert answer["id"] == 7
        assert error in answer["error"]
        assert await client.list() == []

    run(tmp_path, scenario)


def test_malformed_message_closes_its_own_connection_only(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        pid = client.pid

        @settings(max_examples=50, deadline=None)
        @given(st.binary(max_size=100))
        def send(data: bytes) -> None:
            with connect(tmp_path) as sock:
                answers(sock, data)

        await asyncio.to_thread(send)
        for odd in (b"\xff\xff\xff\xff", frame([1, 2]), frame("x"), b"\0\0\0\1\xc1"):
            with connect(tmp_path) as sock:
                assert await asyncio.to_thread(answers, sock, odd) == []
        assert client.pid == pid
        assert await client.list() == []

    run(tmp_path, scenario)


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["argv", "cwd", "env", "uid", "gid", "groups", "streams", "group", "pid_file"]
        ),
        st.none() | st.integers(-5, 5) | st.text(max_size=5) | st.lists(st.text(max_size=3)),
    )
)
def test_supervisor_survives_any_task_spec(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object]
) -> None:
    directory = tmp_path_factory.mktemp("odd")

    async def scenario(client: SupervisorClient) -> None:
        pid = client.pid
        base = {"key": "k", "argv": ["/bin/true"], "cwd": "/", "env": {}}
        request = {"id": 1, "op": "start", "spec": {**base, **fields}}
        with connect(directory) as sock:
            sock.sendall(frame(request))
            assert await asyncio.to_thread(sock.recv, 4)
        assert (await client.list()) is not None
        assert client.pid == pid

    run(directory, scenario)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_other_users_are_refused_though_they_reach_the_socket(tmp_path: Path) -> None:
    program = (
        "import os, socket, sys\n"
        "sock = socket.socket(socket.AF_UNIX)\n"
        "os.chdir(sys.argv[1])\n"
        "os.setuid(65534)\n"
        "sock.connect('supervisor.sock')\n"
        "try:\n"
        "    sock.sendall(bytes.fromhex(sys.argv[2]))\n"
        "    print(sock.recv(100))\n"
        "except ConnectionError:\n"
        "    print(b'')\n"
    )

    async def scenario(client: SupervisorClient) -> None:
        directory = tmp_path / "supervisor"
        assert directory.stat().st_mode & 0o077 == 0
        directory.chmod(0o777)
        (directory / "supervisor.sock").chmod(0o777)
        hello = frame({"id": 1, "op": "hello"}).hex()
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, str(directory), hello],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "b''\n", done.stderr

    run(tmp_path, scenario)


def test_peer_that_does_not_read_is_disconnected_alone(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "true", key="k" * 1000)
        await client.start(task)
        await client.wait(task.key)
        pid = client.pid

        def flood() -> bool:
            """Ask without ever reading, until the other end hangs up."""
            request = frame({"id": 1, "op": "status"}) * 500
            with connect(tmp_path) as sock:
                try:
                    for _ in range(2000):
                        sock.sendall(request)
                except (BrokenPipeError, ConnectionResetError):
                    return True
            return False

        assert await asyncio.to_thread(flood)
        assert (await client.status(task.key)) is not None
        assert client.pid == pid

    run(tmp_path, scenario)


def test_supervisor_that_cannot_start_raises_naming_its_log(tmp_path: Path) -> None:
    async def body() -> None:
        directory = tmp_path / "supervisor"
        directory.mkdir()
        (directory / "journal").mkdir()  # what should be a file
        client = SupervisorClient(directory)
        with pytest.raises(UnavailableError, match=r"supervisor\.log"):
            await client.connect()
        assert "IsADirectoryError" in (directory / "supervisor.log").read_text()
        await client.close()

    asyncio.run(body())


def test_supervisor_of_another_version_is_replaced_and_its_tasks_continue(tmp_path: Path) -> None:
    """The other version is a copy of this one that calls itself so."""
    start_changed_supervisor(tmp_path, "daemon", "PROTOCOL_VERSION = 1", "PROTOCOL_VERSION = 0")
    task = spec(tmp_path, "exec sleep 1000", key="k")
    start = {"id": 1, "op": "start", "spec": msgspec.to_builtins(task)}
    with connect(tmp_path) as sock:
        sock.sendall(frame({"id": 0, "op": "hello"}) + frame(start))
        replies = bytearray()
        while (hello := take_frame(replies)) is None:
            replies += sock.recv(65536)
        while (started := take_frame(replies)) is None:
            replies += sock.recv(65536)
    assert isinstance(hello, dict)
    assert isinstance(started, dict)
    assert hello["protocol"] == 0

    async def scenario(client: SupervisorClient) -> None:
        report = await client.status("k")
        assert report is not None
        assert client.pid != hello["pid"]
        assert (report.pid, report.state) == (started["task"]["pid"], "running")

    run(tmp_path, scenario)


def test_report_has_every_field_the_agent_knows(tmp_path: Path) -> None:
    """The two sides share no types: this is what keeps them together."""

    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "exit 0")
        await client.start(task)
        await client.wait(task.key)
        (answer,) = await asyncio.to_thread(ask, tmp_path, {"id": 1, "op": "status"})
        assert isinstance(answer, dict)
        (report,) = answer["tasks"]
        assert set(report) == {field.encode_name for field in msgspec.structs.fields(TaskReport)}

    run(tmp_path, scenario)
