"""Child processes whose pipes are streams: started by `subprocess`, waited for through a pidfd.

They are the same on every event loop. asyncio's own are not: to start one, uvloop copies this
process past gRPC's threads, in the time that its memory takes; it cannot start one as another user;
and where a child no longer reads, it raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT


@dataclass(frozen=True, slots=True)
class RunAs:
    """The user and the groups of a child."""

    user: int
    group: int | None = None
    extra_groups: Sequence[int] | None = None


def bare_environment() -> dict[str, str]:
    """Returns what the same Python needs to start a module, and nothing else of this process's."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return {**kept, "PYTHONPATH": path, "LC_ALL": "C.UTF-8"}


_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def processor_time_s(pid: int) -> float:
    """Returns how long the process's threads have run on processors; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    except (OSError, IndexError, ValueError):
        return 0.0


class ChildInput(asyncio.StreamWriter):
    """What a child that has ended is still told goes nowhere; `drain` says so (ConnectionError)."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.is_closing():
            super().write(data)


class Child:
    """Made by `start_child`. Its pipes are read to their end, or closed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ended = asyncio.Event()
        self.pid = process.pid
        self.stdin: ChildInput | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._outputs: list[asyncio.ReadTransport] = []

    @property
    def returncode(self) -> int | None:
        """None until its end was seen; negative: the signal that ended it."""
        return self._process.returncode

    async def wait(self) -> int:
        await self._ended.wait()
        assert self._process.returncode is not None
        return self._process.returncode

    def kill(self) -> None:
        """Nothing happens to one that has ended."""
        self._process.kill()

    def close(self) -> None:
        """Nobody reads on: whoever writes there still, a child of the child, is told so."""
        for output in self._outputs:
            output.close()

    async def connect(self) -> None:
        """Its pipes become streams, its end is watched for."""
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(self.pid)
        loop.add_reader(pidfd, self._end, loop, pidfd)
        process = self._process
        if process.stdin is not None:
            self.stdin = await _writer(loop, process.stdin)
        if process.stdout is not None:
            self.stdout = await self._reader(loop, process.stdout)
        if process.stderr is not None:
            self.stderr = await self._reader(loop, process.stderr)

    async def _reader(
        self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes]
    ) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        taken = transport_file(pipe.fileno(), "rb")
        pipe.close()
        transport, _ = await loop.connect_read_pipe(lambda: _Pipe(reader), taken)
        self._outputs.append(transport)
        return reader

    def _end(self, loop: asyncio.AbstractEventLoop, pidfd: int) -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        self._process.wait()
        if self.stdin is not None:
            self.stdin.close()
        self._ended.set()


async def start_child(
    *command: str,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    run_as: RunAs | None = None,
    pass_fds: Sequence[int] = (),
    start_new_session: bool = False,
) -> Child:
    """As `subprocess.Popen` starts it. Raises OSError if there is no such command."""
    # It returns as soon as the child runs its program, and shares this process's memory until then.
    process = subprocess.Popen(  # noqa: ASYNC220
        command,
        bufsize=0,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=env,
        user=run_as.user if run_as else None,
        group=run_as.group if run_as else None,
        extra_groups=run_as.extra_groups if run_as else None,
        pass_fds=pass_fds,
        start_new_session=start_new_session,
    )
    child = Child(process)
    try:
        await child.connect()
    except BaseException:
        process.kill()
        raise
    return child


async def _writer(loop: asyncio.AbstractEventLoop, pipe: IO[bytes]) -> ChildInput:
    taken = transport_file(pipe.fileno(), "wb")
    pipe.close()
    # A reader's protocol for its flow control: there is nothing to read.
    transport, protocol = await loop.connect_write_pipe(
        lambda: _Pipe(asyncio.StreamReader()), taken
    )
    return ChildInput(transport, protocol, None, loop)


def transport_file(fd: int, mode: str) -> IO[bytes]:
    """Returns a file of a duplicate of `fd`, which the transport that it is given to closes once.

    uvloop closes the descriptor of a pipe itself and then its file. A file that closes the
    descriptor too would close what another thread (gRPC's, SQLite's) has opened in between.
    """
    file_closes = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
    return open(os.dup(fd), mode, buffering=0, closefd=file_closes)


class _Pipe(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        """A pipe that has ended is closed: unlike a socket, it has no other direction."""
        super().eof_received()
        return False


__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "Child",
    "ChildInput",
    "RunAs",
    "bare_environment",
    "start_child",
    "transport_file",
]
