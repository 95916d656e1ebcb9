"""Clients, specs and waits for tests of the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import agent.supervisor
from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import LogStream, TaskSpec
from tests.support.polling import until

TIMEOUT_S = 120


@contextlib.asynccontextmanager
async def supervisor(directory: Path) -> AsyncIterator[SupervisorClient]:
    """A client whose supervisor ends, with its tasks, when the test does."""
    client = SupervisorClient(directory / "supervisor")
    await client.connect()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield client
        for report in await client.list():
            if not report.ended:
                await client.stop(report.key, signal.SIGKILL, 0)
                await client.wait(report.key)
    finally:
        await client.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(client.pid, signal.SIGTERM)


def run(directory: Path, scenario: Callable[[SupervisorClient], Awaitable[None]]) -> None:
    async def body() -> None:
        async with supervisor(directory) as client:
            await scenario(client)

    asyncio.run(body())


def spec(directory: Path, script: str, **fields: object) -> TaskSpec:
    """A shell script with its output in `directory/logs`, in three files of 1000 bytes."""
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    streams = [LogStream(str(logs), f"web.{name}", 3, 1000) for name in ("stdout", "stderr")]
    given = {"key": f"alloc/web/{secrets.token_hex(4)}", "streams": streams, **fields}
    return TaskSpec(argv=["/bin/sh", "-c", script], cwd=str(directory), **given)  # type: ignore[arg-type]


def output(directory: Path, stream: str = "stdout") -> str:
    paths = (directory / "logs").glob(f"web.{stream}.*")
    return "".join(path.read_text() for path in sorted(paths, key=lambda p: int(p.suffix[1:])))


def start_changed_supervisor(directory: Path, module: str, old: str, new: str) -> None:
    """Start a supervisor from a copy of its code in which `old` in `module` is `new`: another
    version of it, or one on a kernel that lacks something."""
    code = directory / "changed" / "agent"
    shutil.copytree(Path(agent.supervisor.__file__).parent, code / "supervisor")
    shutil.copy(Path(agent.__file__), code)
    path = code / "supervisor" / f"{module}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    (directory / "supervisor").mkdir(mode=0o700, exist_ok=True)
    read_fd, write_fd = os.pipe()
    main = str(code / "supervisor" / "main.py")
    subprocess.run(
        [sys.executable, "-I", "-S", main, "launch", str(directory / "supervisor"), str(write_fd)],
        pass_fds=(write_fd,),
        check=True,
    )
    assert os.read(read_fd, 10) == b"ready"
    os.close(read_fd)
    os.close(write_fd)


async def until_output(directory: Path, text: str) -> None:
    await until(lambda: text in output(directory))


async def until_gone(pid: int) -> None:
    await until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def kill_supervisor(client: SupervisorClient) -> None:
    """Kill it, and wait until the client has the next one."""
    old = client.pid
    os.kill(old, signal.SIGKILL)
    await until(lambda: client.pid != old)
