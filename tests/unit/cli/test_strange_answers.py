"""No answer of a server makes a command fail with a traceback: every error is one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEEP = b"[" * 100_000

ANSWERS = {
    "nothing": b"",
    "null": b"null",
    "empty list": b"[]",
    "empty object": b"{}",
    "number": b"7",
    "list of numbers": b"[1, 2]",
    "list of lists": b"[[[]]]",
    "objects without ids": b'[{"Name": null}]',
    "ids of the wrong type": b'[{"ID": 5, "Name": 5, "Services": 5}]',
    "one object": b'{"ID": "x", "Matches": {"jobs": [7]}, "Versions": 5, "Members": {}}',
    "page of another program": b"<html><body>Welcome to nginx</body></html>",
    "no text": b"\xff\xfe\x00\x01",
    "deep": DEEP,
}
RAW = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n",
    "bad index": b"HTTP/1.1 200 OK\r\nX-Nomad-Index: -x\r\nContent-Length: 2\r\n\r\n[]",
    "error page": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>",
}


@contextlib.contextmanager
def stub(answer: bytes) -> Iterator[str]:
    """The address of a server that gives the same answer to everything."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.connection.settimeout(0.5)
                while self.rfile.readline() not in (b"\r\n", b"\n", b""):
                    continue
                self.wfile.write(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 100

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


USUAL = ("objects without ids", "cut")
"""The others take as long, and find the same commands."""


def whole(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nX-Nomad-Index: 5\r\n\r\n"
    return head.encode() + body


def check(name: str, directory: Path) -> None:
    answer = whole(ANSWERS[name]) if name in ANSWERS else RAW[name]
    with stub(answer) as address:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.support.strange_answers", address],
            cwd=directory,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("name", USUAL)
def test_strange_answer_is_one_sentence(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*ANSWERS, *RAW} - {*USUAL}))
def test_stranger_answer_is_one_sentence(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)
