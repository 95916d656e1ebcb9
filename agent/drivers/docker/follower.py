"""One thread per container: copies its output into the rotating files, then reports its end.

The engine stores what a container writes while no agent runs. The timestamp of the last copied
frame, and how many frames had it, are stored with the agent's data, so the next agent continues
there: a crash may repeat the last line, and loses none.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.drivers.base import ExitResult
from agent.drivers.docker.errors import UnreadableLogsError
from agent.supervisor.log_files import RotatingFiles
from orchgit.errors import DriverError

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Engine

_RETRY_DELAY_S = 1.0
_POSITION_BYTES = 64


class LogFollower:
    """`on_end` is called once, on this object's own thread."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        open_files: Callable[[], dict[str, RotatingFiles]],
        position: Path,
        on_end: Callable[[ExitResult], None],
    ) -> None:
        self._engine = engine
        self._container = container
        self._open_files = open_files
        self._files: dict[str, RotatingFiles] = {}
        self._position_path = position
        self._on_end = on_end
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"docker {container[:12]}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Lose interest; a thread that waits for the engine ends with the process."""
        self._stopping.set()

    def _run(self) -> None:
        """The engine may be restarted meanwhile: containers and their logs survive that."""
        self._files = self._open_files()
        position = _Position(self._position_path)
        while not self._stopping.is_set():
            try:
                result = self._to_the_end(position)
            except (DriverError, OSError) as error:
                if isinstance(error, UnreadableLogsError):  # by its logging driver
                    self._files = {}
                self._stopping.wait(_RETRY_DELAY_S)
                continue
            for files in self._files.values():
                files.close()
            if not self._stopping.is_set():
                self._on_end(result)
            return

    def _to_the_end(self, position: _Position) -> ExitResult:
        if not self._engine.exists(self._container):
            return ExitResult(exit_code=-1, error="the container was removed by someone else")
        if self._files:
            self._copy_logs(position, follow=True)
        self._engine.wait(self._container)
        if self._files:
            # An engine that is busy may end the followed answer before the last output is in it.
            self._copy_logs(position, follow=False)
        container = self._engine.inspect(self._container)
        return ExitResult(
            exit_code=container.exit_code,
            oom_killed=container.oom_killed,
            error=container.error or ("OOM Killed" if container.oom_killed else ""),
            finished_ns=container.finished_ns,
        )

    def _copy_logs(self, position: _Position, follow: bool) -> None:
        """A full disk costs output and the place reached in it, never the task's end."""
        tty = self._engine.inspect(self._container).tty
        frames = self._engine.logs(
            self._container, position.timestamp, position.frames, tty, follow
        )
        for frame in frames:
            self._files[frame.stream].write(frame.data)
            position.keep(frame.timestamp)
            if self._stopping.is_set():
                break
        position.close()


class _Position:
    """How far the output has been copied: a timestamp, and how many frames of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self.timestamp, self.frames = "", 0
        with contextlib.suppress(OSError):
            self.timestamp, _, frames = path.read_text().strip().partition(" ")
            self.frames = int(frames) if frames.isdecimal() else 1

    def keep(self, timestamp: str) -> None:
        """One more frame was copied. What is written is never shorter than what it replaces.

        Frames of the two streams may be stored in another order than that of their timestamps: the
        newest one counts.
        """
        if timestamp < self.timestamp:
            return
        self.frames = self.frames + 1 if timestamp == self.timestamp else 1
        self.timestamp = timestamp
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(
                self._fd, f"{timestamp} {self.frames:010d}".ljust(_POSITION_BYTES).encode(), 0
            )
        except OSError:
            return

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
