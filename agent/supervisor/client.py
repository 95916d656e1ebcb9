"""The agent's client of the supervisor: starts one where none runs, and stays connected.

Every request may be sent twice without harm. So after a broken connection (the supervisor was
killed) the client connects again, to a new supervisor if need be, and repeats open requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from agent.supervisor.codec import MAX_FRAME_BYTES
from agent.supervisor.daemon import PROTOCOL_VERSION, SOCKET_NAME
from agent.supervisor.protocol import Answer, TaskReport, TaskSpec
from orchgit.errors import DriverError, UnavailableError
from orchgit.length_frames import FrameError, receive_frame

_MAIN = str(Path(__file__).with_name("main.py"))
_READY_TIMEOUT_S = 10.0
_CONNECT_ATTEMPTS = 5
_RETRY_DELAY_S = 1.0


class SupervisorClient:
    """Requests to the supervisor of one directory, and the exits it reports."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._exits: dict[str, asyncio.Future[TaskReport]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._recovering: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self.pid = 0
        """The supervisor's pid; 0 before the first connection."""

    async def connect(self) -> None:
        """Connect to the supervisor unless connected already, starting one if there is none."""
        async with self._connecting:
            if self._closed:
                raise UnavailableError("cannot reach the supervisor: the agent is shutting down")
            if self._writer is None:
                await self._open()

    async def close(self) -> None:
        """Disconnect; the supervisor and the tasks run on."""
        self._closed = True
        running = [task for task in (self._reading, self._recovering) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._drop_connection()
        for waiting in self._exits.values():
            waiting.cancel()

    # -- commands ------------------------------------------------------------------------------

    async def start(self, spec: TaskSpec) -> TaskReport:
        """Start the process; the same key a second time returns the task already started."""
        answer = await self._ask("start", spec=msgspec.to_builtins(spec))
        if answer.task is None:
            raise UnavailableError(f"cannot read the supervisor's answer about task {spec.key}")
        return answer.task

    async def stop(self, key: str, number: int, grace_s: float) -> None:
        """Signal the task, and kill it when the grace period is over; returns at once."""
        await self._ask("stop", key=key, signal=number, grace_ms=round(grace_s * 1000))

    async def signal(self, key: str, number: int) -> None:
        await self._ask("signal", key=key, signal=number)

    async def status(self, key: str) -> TaskReport | None:
        """Returns None for a task that the supervisor never started, or that was acknowledged."""
        answer = await self._ask("status", key=key)
        return answer.tasks[0] if answer.tasks else None

    async def list(self) -> list[TaskReport]:
        return (await self._ask("status")).tasks

    async def wait(self, key: str) -> TaskReport:
        """Returns the report of the task's end; DriverError for a task that is not known."""
        future = self._exits.get(key)
        if future is None:
            future = self._exits[key] = asyncio.get_running_loop().create_future()
            report = await self.status(key)
            if report is None:
                self._forget(key)
                raise _unknown(key)
            if report.ended:
                self._set_exit(report)
        return await asyncio.shield(future)

    async def ack(self, key: str) -> None:
        """The result has been stored: the supervisor may forget the task."""
        await self._ask("ack", key=key)
        self._forget(key)

    # -- connection ----------------------------------------------------------------------------

    async def _ask(self, op: str, **fields: object) -> Answer:
        for _ in range(_CONNECT_ATTEMPTS):
            with contextlib.suppress(ConnectionError):
                await self.connect()
                return _checked(await self._ask_once(op, fields))
        raise UnavailableError(
            f"cannot {op}: the supervisor in {self._directory} ends again and again; "
            "see supervisor.log there"
        )

    async def _ask_once(self, op: str, fields: dict[str, object]) -> Answer:
        if self._writer is None:
            raise ConnectionResetError
        number = next(self._ids)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        body = msgspec.msgpack.encode({"id": number, "op": op, **fields})
        try:
            if not self._writer.is_closing():  # else the reader, who hears of it too, will say so
                self._writer.write(len(body).to_bytes(4, "big") + body)
            return await future
        finally:
            self._pending.pop(number, None)

    async def _open(self) -> None:
        for _ in range(_CONNECT_ATTEMPTS):
            try:
                reader, self._writer = await self._connect_once()
            except OSError:
                await self._spawn()
                continue
            self._reading = asyncio.create_task(self._read(reader), name="supervisor-link")
            if await self._greeted():
                return
        raise UnavailableError(
            f"cannot start the supervisor in {self._directory}; see supervisor.log there"
        )

    async def _connect_once(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect through the directory's descriptor: an address has room for 107 bytes only."""
        directory_fd = os.open(self._directory, os.O_PATH)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(f"/proc/self/fd/{directory_fd}/{SOCKET_NAME}")
            return await asyncio.open_unix_connection(sock=sock)
        except BaseException:
            sock.close()
            raise
        finally:
            os.close(directory_fd)

    async def _greeted(self) -> bool:
        """Whether the supervisor answers; False when another one must be started."""
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                await self._greet()
        except TimeoutError:
            self._drop_connection()
            raise UnavailableError(
                f"cannot use the supervisor in {self._directory}: it does not answer"
            ) from None
        except ConnectionError:
            return False
        return True

    async def _greet(self) -> None:
        """Exchange versions, and subscribe to exits; the answer has the exits that were missed."""
        hello = _checked(await self._ask_once("hello", {}))
        self.pid = hello.pid
        if hello.protocol != PROTOCOL_VERSION:
            await self._replace_supervisor()
        known = {report.key: report for report in (await self._ask_once("watch", {})).tasks}
        for key, waiting in list(self._exits.items()):
            report = known.get(key)
            if report is None and not waiting.done():
                waiting.set_exception(_unknown(key))
            elif report is not None and report.ended:
                self._set_exit(report)

    async def _replace_supervisor(self) -> None:
        """End a supervisor of another version; its tasks run on under a new one."""
        os.kill(self.pid, signal.SIGTERM)
        if self._reading is not None:
            await asyncio.wait([self._reading])
        raise ConnectionResetError

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = msgspec.msgpack.Decoder(Answer)
        try:
            while True:
                self._take(decoder.decode(await receive_frame(reader, MAX_FRAME_BYTES)))
        except (asyncio.IncompleteReadError, ConnectionError, FrameError):
            self._drop_connection()
            if not self._closed and (self._recovering is None or self._recovering.done()):
                self._recovering = asyncio.create_task(self._recover(), name="supervisor-recovery")

    async def _recover(self) -> None:
        """Connect again at once: tasks that write output need a supervisor."""
        while not self._closed:
            with contextlib.suppress(UnavailableError, ConnectionError, DriverError):
                await self.connect()
                return
            await asyncio.sleep(_RETRY_DELAY_S)

    def _take(self, answer: Answer) -> None:
        if answer.event == "exit" and answer.task is not None:
            self._set_exit(answer.task)
        elif answer.id is not None and answer.id in self._pending:
            future = self._pending[answer.id]
            if not future.done():
                future.set_result(answer)

    def _set_exit(self, report: TaskReport) -> None:
        future = self._exits.get(report.key)
        if future is not None and not future.done():
            future.set_result(report)

    def _forget(self, key: str) -> None:
        future = self._exits.pop(key, None)
        if future is not None and not future.done():
            future.cancel()

    def _drop_connection(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ConnectionResetError())

    # -- starting a supervisor -----------------------------------------------------------------

    async def _spawn(self) -> None:
        """Start a supervisor, and wait until it serves (or says that another one does)."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory.chmod(0o700)
        async with _pipe() as (read_fd, write_fd):
            await asyncio.to_thread(self._launch, write_fd)
            await _first_bytes(read_fd)

    def _launch(self, ready_fd: int) -> None:
        """Returns once it has detached. On a thread: asyncio's own way of starting a process hangs
        when the loop ends in that moment (seen with Python 3.11)."""
        subprocess.run(
            [sys.executable, "-I", "-S", _MAIN, "launch", str(self._directory), str(ready_fd)],
            stdin=subprocess.DEVNULL,
            pass_fds=(ready_fd,),
            env=_environment(),
            check=False,
        )
        os.close(ready_fd)


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[int, int]]:
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield read_fd, write_fd
    finally:
        os.close(read_fd)


def _environment() -> dict[str, str]:
    """The supervisor needs none of the agent's settings, and must not keep its secrets."""
    given = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH") if name in os.environ}
    return {**given, "LC_ALL": "C.UTF-8"}


async def _first_bytes(fd: int) -> bytes:
    """The new supervisor's first bytes; none when it ended or took too long."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(fd, readable.cancel)
    try:
        await asyncio.wait([readable], timeout=_READY_TIMEOUT_S)
        return os.read(fd, 16) if readable.done() else b""
    finally:
        loop.remove_reader(fd)


def _unknown(key: str) -> DriverError:
    return DriverError(f"cannot wait for task {key}: the supervisor does not know it")


def _checked(answer: Answer) -> Answer:
    if answer.error:
        raise DriverError(answer.error)
    return answer
