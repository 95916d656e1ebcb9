"""A real `orchgit dev` in a process of its own, and what a person does with it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

READY_TIMEOUT_S = 120.0
COMMAND_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class OrchgitProcess:
    """`python -m orchgit ARGUMENTS` until it says what it says when it is ready."""

    def __init__(self, *arguments: str, ready: str) -> None:
        self.arguments = arguments
        self._ready_text = ready
        self._ready = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []

    def start(self) -> Self:
        self._ready.clear()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "orchgit", *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        if not self._ready.wait(READY_TIMEOUT_S):
            raise AssertionError(f"{self.arguments} did not get ready:\n" + self.output)
        return self

    def kill9(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=60)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.append(line)
            self._heard(line)
            if self._ready_text in line:
                self._ready.set()

    def _heard(self, line: str) -> None:
        """Each line of output, before it may mean ready."""


class ApiUser:
    """What a person does with a cluster at an address."""

    address = ""
    token = ""
    """What commands and requests carry, where access control is on."""

    def cli(self, *arguments: str, cwd: Path | None = None) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "orchgit", *arguments],
            capture_output=True,
            text=True,
            cwd=cwd,
            timeout=COMMAND_TIMEOUT_S,
            env={**os.environ, "ORCHGIT_ADDR": self.address, "ORCHGIT_TOKEN": self.token},
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def cli_json(self, *arguments: str, cwd: Path | None = None) -> Any:
        done = self.cli(*arguments, "-json", cwd=cwd)
        assert done.code in (0, 1), done.text
        return json.loads(done.out)

    def get(self, path: str, **params: Any) -> Any:
        response = self._asked(path, params)
        assert response.status_code == 200, response.text
        return response.json()

    def _asked(self, path: str, params: dict[str, Any]) -> httpx.Response:
        headers = {"X-Nomad-Token": self.token} if self.token else {}
        return httpx.get(
            self.address + path, params=params, headers=headers, timeout=60, trust_env=False
        )

    def wait_for(
        self, path: str, accept: Callable[[Any], bool], timeout_s: float = 40.0, **params: Any
    ) -> Any:
        """Blocking reads of `path` until the answer is accepted; returns that answer."""
        index, last = 0, None
        deadline = threading.Event()
        timer = threading.Timer(timeout_s, deadline.set)
        timer.start()
        try:
            while not deadline.is_set():
                response = self._asked(path, {**params, "index": index, "wait": "2s"})
                if response.status_code == 404:
                    index = 0
                    continue
                assert response.status_code == 200, response.text
                last = response.json()
                if accept(last):
                    return last
                index = int(response.headers["X-Nomad-Index"])
        finally:
            timer.cancel()
        raise AssertionError(f"{path} was never accepted; last: {json.dumps(last)[:3000]}")

    def running_allocations(self, job_id: str, count: int = 1) -> list[dict[str, Any]]:
        """Waits until exactly `count` allocations of the job run and are wanted."""

        def running(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [
                each
                for each in found
                if each["ClientStatus"] == "running" and each["DesiredStatus"] == "run"
            ]

        found = self.wait_for(
            f"/v1/job/{job_id}/allocations", lambda answer: len(running(answer)) == count
        )
        return running(found)

    def task_pids(self, alloc_id: str) -> list[int]:
        """Processes whose environment names the allocation."""
        wanted = f"NOMAD_ALLOC_ID={alloc_id}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return sorted(found)

    def log(self, alloc_id: str, task: str, kind: str = "stdout") -> str:
        response = httpx.get(
            f"{self.address}/v1/client/fs/logs/{alloc_id}",
            params={"task": task, "type": kind, "plain": "true"},
            trust_env=False,
        )
        assert response.status_code == 200, response.text
        return response.text


class DevServer(OrchgitProcess, ApiUser):
    """`start` returns when the node is ready; `kill9`, then `start`: a crash and a restart."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        super().__init__(ready="Node ready")
        self.data_dir = data_dir
        self._extra = arguments
        self._port = 0

    def start(self) -> Self:
        self.arguments = (
            *("dev", "-data-dir", str(self.data_dir), "-port", str(self._port)),
            *self._extra,
        )
        super().start()
        self._port = int(self.address.rsplit(":", 1)[1])
        return self

    def cleanup(self) -> None:
        """End the process and every task of its data directory."""
        if self.is_running:
            self.kill9()
        end_tasks(self.data_dir)

    def _heard(self, line: str) -> None:
        found = re.search(r"HTTP\s+(http://\S+)", line)
        if found:
            self.address = found.group(1)


def end_tasks(data_dir: Path) -> None:
    """Stop every task under the supervisor of a data directory."""
    subprocess.run(
        [sys.executable, "-m", "orchgit", "dev", "-data-dir", str(data_dir), "-cleanup"],
        check=True,
        timeout=30,
    )


def git_environment() -> dict[str, str]:
    """Of a person of the tests, whatever this machine's git is configured to."""
    return {
        **os.environ,
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
    }


def git(cwd: Path, *arguments: str, check: bool = True) -> Done:
    """Run git as a person of the tests."""
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        env=git_environment(),
    )
    result = Done(done.returncode, done.stdout, done.stderr)
    assert not check or result.code == 0, result.text
    return result


@contextlib.contextmanager
def dev_server(data_dir: Path, *arguments: str) -> Iterator[DevServer]:
    """A started server that is cleaned up at the end, its tasks too."""
    server = DevServer(data_dir, *arguments)
    try:
        yield server.start()
    finally:
        server.cleanup()
