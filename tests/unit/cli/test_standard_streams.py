"""Closed, full and narrow standard streams, and interrupts in a row: never a traceback."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.json_http_stub import JsonHttpStub, StubRequest

PYTHON = [sys.executable, "-m", "orchgit"]
ENOUGH_S = 60


def ended(words: str, redirected: str = "", **environment: str) -> tuple[int, str]:
    """The exit code of a command in a shell, and all that it wrote."""
    script = f'exec "$0" -m orchgit {words} {redirected}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        timeout=ENOUGH_S,
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("words", ["version", "lint -help"])
def test_full_standard_output_is_told_and_fails(words: str) -> None:
    code, said = ended(words, ">/dev/full")
    assert code == 1
    assert said == "Error: cannot read or write: No space left on device\n"


def test_closed_streams_are_as_good_as_none() -> None:
    assert ended("version", ">&-") == (0, "")
    assert ended("lint -help", ">&- 2>&- <&-") == (0, "")
    assert ended("lint /nowhere.hcl", "2>&-")[0] == 1


def test_character_that_a_stream_lacks_is_escaped(tmp_path: Path) -> None:
    file = tmp_path / "job.hcl"
    file.write_text('job "→" {}\n', encoding="utf-8")
    code, said = ended("fmt -write=false -", "<$FILE", PYTHONIOENCODING="latin-1", FILE=str(file))
    assert (code, said) == (0, 'job "\\u2192" {}\n')


def test_pipe_that_nobody_reads_ends_the_command_in_silence() -> None:
    script = '"$0" -m orchgit -help 2>&1 | :'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable], capture_output=True, timeout=ENOUGH_S
    )
    assert (done.stdout, done.stderr) == (b"", b"")


class RunningJob(JsonHttpStub):
    """A cluster with one job, whose task wrote a line."""

    def answer(self, request: StubRequest) -> tuple[int, object]:
        if request.path.startswith("/v1/client/fs/logs/"):
            data = base64.b64encode(b"hello\n").decode()
            return 200, {"Data": data, "File": "alloc/logs/t.stdout.0", "Offset": 6}
        if request.path == "/v1/jobs":
            return 200, [{"ID": "web", "Namespace": "default"}]
        states = {"t": {"State": "running", "StartedAt": "2026-11-28T00:00:00Z"}}
        alloc = {"ID": "a" * 36, "TaskGroup": "g", "ClientStatus": "running", "CreateIndex": 1}
        return 200, [{**alloc, "TaskStates": states}]


@pytest.mark.parametrize("words", ["logs web -f", "logs web"])
def test_logs_that_nobody_reads_end_in_silence(words: str) -> None:
    with RunningJob() as cluster:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*PYTHON, *words.split()],
            env={**os.environ, "ORCHGIT_ADDR": cluster.url},
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=ENOUGH_S,
        )
        os.close(writing)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_interrupts_in_a_row_end_a_command_without_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(ENOUGH_S)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        command = subprocess.Popen(
            [*PYTHON, "job", "status", "-address", address],
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        connection, _ = server.accept()
        with connection:
            for _ in range(20):
                command.send_signal(signal.SIGINT)
            _, said = command.communicate(timeout=ENOUGH_S)
    assert command.returncode in (130, -signal.SIGINT)
    assert said.decode().strip() in ("", "Stopped: nothing more is done.")
