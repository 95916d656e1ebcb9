"""Runs commands in the context of a task, as children of the agent.

The task's own processes belong to the supervisor; these are for script checks and `alloc exec`,
where the streams end at the agent anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import re
import shutil
import struct
import termios
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agent.drivers.base import ExecResult
from orchgit.child import DEVNULL, PIPE, STDOUT, Child, RunAs, start_child, transport_file
from orchgit.errors import DriverError

OUTPUT_LIMIT_BYTES = 256 << 10
TIMED_OUT = -1
TERMINAL = "xterm"
"""What `TERM` says to a program with a terminal, where the task does not."""

_READ_BYTES = 65536
_MOST_JOINING = 1000
_UNSAFE = re.compile(
    "(LD|MALLOC)_.*|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|HOSTALIASES|LOCALDOMAIN|LOCPATH|NIS_PATH"
    "|NLSPATH|RESOLV_HOST_CONF|RES_OPTIONS|TMPDIR|TZDIR"
)
"""Variables that the C library heeds in no program with another user's rights (ld.so(8))."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a process in a task's context."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    network_namespace: str = ""
    """A path; "" is the agent's own."""
    group_members: list[str] = []
    """The files to write the new pid to, so that it dies with the task and has its limits."""


class StreamSession:
    """A running command with open streams; a terminal has one stream, reported as stdout."""

    def __init__(
        self,
        process: Child,
        readers: dict[str, asyncio.StreamReader],
        write: Callable[[bytes], None],
        close_stdin: Callable[[], None],
        terminal_fd: int = -1,
    ) -> None:
        self._process = process
        self._write = write
        self._close_stdin = close_stdin
        self._terminal_fd = terminal_fd
        self._output: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(maxsize=16)
        self._open = len(readers)
        self._copying = [asyncio.create_task(self._copy(n, r)) for n, r in readers.items()]

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the command no longer reads
            self._write(data)

    async def close_stdin(self) -> None:
        self._close_stdin()

    async def read(self) -> tuple[str, bytes]:
        if self._open == 0 and self._output.empty():
            return "stdout", b""
        return await self._output.get()

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal_fd >= 0:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._terminal_fd, termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def close(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        for copying in self._copying:
            copying.cancel()
        await asyncio.gather(*self._copying, return_exceptions=True)
        await self._process.wait()
        self._process.close()
        if self._terminal_fd >= 0:
            os.close(self._terminal_fd)
            self._terminal_fd = -1

    async def _copy(self, name: str, reader: asyncio.StreamReader) -> None:
        """Copy until the end. A terminal whose last user has left reads as an I/O error."""
        with contextlib.suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await self._output.put((name, data))
        self._open -= 1
        if self._open == 0:
            await self._output.put(("stdout", b""))


async def open_session(command: Command, tty: bool) -> StreamSession:
    """Start `command`; with `tty` its streams are a new terminal."""
    return await (_open_terminal(command) if tty else _open_pipes(command))


async def run_command(command: Command, timeout_s: float) -> ExecResult:
    """Run `command` to its end; its output is cut to the last `OUTPUT_LIMIT_BYTES`."""
    process = await _start(command, DEVNULL, PIPE, STDOUT)
    assert process.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while data := await process.stdout.read(_READ_BYTES):
                output += data
                del output[: max(0, len(output) - OUTPUT_LIMIT_BYTES)]
            code = await process.wait()
    except TimeoutError:
        _kill_session(process)
        await process.wait()
        return ExecResult(bytes(output), TIMED_OUT)
    except asyncio.CancelledError:
        _kill_session(process)
        raise
    finally:
        process.close()
    return ExecResult(bytes(output), 128 - code if code < 0 else code)


def _kill_session(process: Child) -> None:
    """Each command leads its own session, so its children are killed with it."""
    process.kill()  # one that has a terminal may not lead its session yet
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)


async def _open_pipes(command: Command) -> StreamSession:
    process = await _start(command, PIPE, PIPE, PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    readers = {"stdout": process.stdout, "stderr": process.stderr}
    return StreamSession(process, readers, process.stdin.write, process.stdin.close)


async def _open_terminal(command: Command) -> StreamSession:
    """The terminal controls the command's session: interrupts and new sizes reach its programs."""
    setsid = shutil.which("setsid")
    if setsid is None:
        raise DriverError("cannot give the command a terminal: install setsid, or use -t=false")
    command = msgspec.structs.replace(command, env={"TERM": TERMINAL, **command.env})
    main_fd, task_fd = pty.openpty()
    try:
        process = await _start(command, task_fd, task_fd, task_fd, (setsid, "-c"))
    except BaseException:
        os.close(main_fd)
        raise
    finally:
        os.close(task_fd)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), transport_file(main_fd, "rb")
    )
    return StreamSession(
        process,
        {"stdout": reader},
        lambda data: _write_all(main_fd, data),
        lambda: _write_all(main_fd, b"\x04"),
        main_fd,
    )


async def _start(
    command: Command, stdin: int, stdout: int, stderr: int, to_lead: tuple[str, ...] = ()
) -> Child:
    """`to_lead`: the command that begins a session, where the child is not to begin it itself."""
    run_as, argv, env = None, command.argv, command.env
    if command.network_namespace:
        argv, env = in_network(command)
    elif command.uid is not None:
        run_as = RunAs(command.uid, command.gid, command.groups)
    try:
        process = await start_child(
            *to_lead,
            *argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=command.cwd,
            env=env,
            start_new_session=not to_lead,
            run_as=run_as,
        )
    except OSError as error:
        raise DriverError(f"cannot run {command.argv[0]}: {error.strerror}") from None
    try:
        join_groups(command.group_members, process.pid)
    except DriverError:
        _kill_session(process)
        await process.wait()
        process.close()
        raise
    return process


def join_groups(members: Sequence[str], pid: int) -> None:
    """Puts the process, and what it has started since, into the task's control groups.

    Raises DriverError where a group is gone: the task has ended, and the command may not outlive
    it.
    """
    for file in members:
        waiting = deque([pid])
        for _ in range(_MOST_JOINING):  # a command may fork for ever, then as a member
            if not waiting:
                break
            member = waiting.popleft()
            try:
                Path(file).write_text(str(member))
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENODEV):
                    text = "cannot run a command in the task: it has just ended"
                    raise DriverError(text) from None
                continue  # the process itself has ended, or the group is not ours to join
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{member}/task/{member}/children").read_text()
                waiting += map(int, children.split())


def in_network(command: Command) -> tuple[list[str], dict[str, str]]:
    """Returns the command behind those of util-linux that join the namespace, and then become the
    user, since the user alone may not join it; and the environment to start it with.

    What steers how a program is loaded must not reach those of util-linux, which run as the agent's
    user: `env` gives it to the command, behind them.
    """
    join = [_helper("nsenter"), f"--net={command.network_namespace}", "--"]
    if command.uid is None:
        return [*join, *command.argv], command.env
    groups = ",".join(map(str, command.groups or ()))
    become = [
        _helper("setpriv"),
        f"--reuid={command.uid}",
        f"--regid={command.uid if command.gid is None else command.gid}",
        f"--groups={groups}" if groups else "--clear-groups",
        "--",
    ]
    held = {name: value for name, value in command.env.items() if _UNSAFE.fullmatch(name)}
    give = [_helper("env"), *(f"{name}={value}" for name, value in held.items())] if held else []
    env = {name: value for name, value in command.env.items() if name not in held}
    return [*join, *become, *give, *command.argv], env


def _helper(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise DriverError(f"cannot join a network namespace: install {name}")
    return path


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
