"""One parsing process: its pipes, its limits, and how it ended."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from orchgit.child import bare_environment, processor_time_s
from orchgit.gitops.parsing.messages import MAX_FRAME_BYTES, WorkerMessage, framed
from orchgit.length_frames import take_frames

_READ_BYTES = 1 << 18
_STDERR_KEPT = 2_000
_SHORTEST_WAIT_S = 0.01
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What parsing may cost. An error that a limit causes names the limit.

    At most `parse_processes` run (0: one for each usable processor, at most 8), one for every
    `files_a_process`. The rest of a commit's files is given up once `max_lost_processes` were
    killed or crashed, or once the files took `max_steps` of evaluation, of 1 to 2 us each.

    Idle processes end after `idle_s`. `warm` of them stay for `warm_idle_s`, so that the next file
    does not wait for a start. One that holds more than `idle_memory_bytes` does not stay, and is
    not given another commit's files.
    """

    parse_processes: int = 0
    parse_timeout_s: float = 10.0
    """Of processor time, for one file: a machine that stands still makes no file wrong."""
    stall_timeout_s: float = 180.0
    """Of any time: a process that waits for nothing to come is ended after it."""
    parse_memory_bytes: int = 256 * _MIB
    start_timeout_s: float = 30.0
    max_failed_starts: int = 3
    max_lost_processes: int = 5
    max_steps: int = 10_000_000
    files_a_process: int = 200
    idle_s: float = 30.0
    warm: int = 0
    warm_idle_s: float = 600.0
    idle_memory_bytes: int = 48 * _MIB
    command: Sequence[str] = field(
        default=(sys.executable, "-m", "orchgit.gitops.parsing.worker"), repr=False
    )

    @property
    def processes(self) -> int:
        """How many processes may run at once."""
        return self.parse_processes or min(len(os.sched_getaffinity(0)), 8)


class ParseProcess:
    """A parsing process as the server sees it: a new program without the server's memory and
    environment.

    No method but `end` waits. `pending` are the numbers of the files that the process has not
    answered yet. `was_idle`: it was kept for later, and has not answered since.
    """

    def __init__(self, limits: ParseLimits) -> None:
        self._child = subprocess.Popen(
            list(limits.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=bare_environment(),
            bufsize=0,
            start_new_session=True,
        )
        memory = (limits.parse_memory_bytes, limits.parse_memory_bytes)
        with suppress(ProcessLookupError):
            resource.prlimit(self._child.pid, resource.RLIMIT_AS, memory)
            resource.prlimit(self._child.pid, resource.RLIMIT_CORE, (0, 0))
        pipes = [
            pipe
            for pipe in (self._child.stdin, self._child.stdout, self._child.stderr)
            if pipe is not None
        ]
        self._pipes = pipes
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in pipes)
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._stderr_tail = b""
        self._decoder: msgspec.msgpack.Decoder[WorkerMessage] = msgspec.msgpack.Decoder(
            WorkerMessage
        )
        self.ready = False
        self.was_idle = False
        self.pending: deque[int] = deque()
        self.deadline_s = time.monotonic() + limits.start_timeout_s
        self._limits = limits
        self._file_since_s = 0.0
        self._used_before_s = 0.0

    def begin_file(self) -> None:
        """The next file's time begins."""
        self._file_since_s = time.monotonic()
        self._used_before_s = processor_time_s(self.pid)
        self.deadline_s = self._file_since_s + self._limits.parse_timeout_s

    def has_time_left(self) -> bool:
        """Returns whether its file may take longer, at the deadline; then that is later."""
        limits, now_s = self._limits, time.monotonic()
        left_s = limits.parse_timeout_s - (processor_time_s(self.pid) - self._used_before_s)
        stalled_s = self._file_since_s + limits.stall_timeout_s
        if left_s <= 0 or stalled_s <= now_s:
            return False
        self.deadline_s = min(now_s + max(left_s, _SHORTEST_WAIT_S), stalled_s)
        return True

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    @property
    def memory_bytes(self) -> int:
        """The process's resident memory; 0 when it has ended."""
        try:
            with open(f"/proc/{self.pid}/statm") as statm:
                return int(statm.read().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0

    @property
    def wants_to_write(self) -> bool:
        return bool(self._outgoing)

    def send(self, message: msgspec.Struct) -> None:
        """Queues the message for the pipe, and writes what fits now."""
        self._outgoing += framed(message)
        self.write()

    def write(self) -> None:
        """Writes what fits into the pipe. A process that ended is noticed when it is read from."""
        with suppress(BlockingIOError, BrokenPipeError):
            while self._outgoing:
                del self._outgoing[: os.write(self.stdin, self._outgoing)]

    def answers(self) -> list[WorkerMessage]:
        """Returns the answers that have arrived. Raises EOFError if the process has ended."""
        try:
            data = os.read(self.stdout, _READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise EOFError
        self._incoming += data
        return [self._decoder.decode(body) for body in take_frames(self._incoming, MAX_FRAME_BYTES)]

    def read_stderr(self) -> None:
        """Reads the process's stderr, and keeps its end."""
        with suppress(BlockingIOError):
            self._stderr_tail = (self._stderr_tail + os.read(self.stderr, _READ_BYTES))[
                -_STDERR_KEPT:
            ]

    def end(self, grace_s: float = 0.0) -> str:
        """Kills the process if it still runs after the grace, and returns how it ended."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(grace_s)
        ended_by_itself = self._child.returncode is not None
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        code = self._child.wait()
        self.read_stderr()
        for pipe in self._pipes:
            pipe.close()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = self._stderr_tail.decode(errors="replace").strip().splitlines()[-1:]
        return ": ".join([how, *last]) if ended_by_itself else "killed"
