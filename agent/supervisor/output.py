"""A task's stdout and stderr: two named pipes that outlive the supervisor, and their log files.

The task holds its end open for reading and writing, so a killed supervisor breaks no pipe: the task
runs on, its output waits in the pipe (64 KiB; then the task waits too), and the next supervisor
opens the same name and reads on. (The kernel drops what is in a pipe that nobody has open: the last
output of a task that ends before the next supervisor is there.)
The names lie in the supervisor's private directory.
"""

from __future__ import annotations

import os

from agent.supervisor.log_files import RotatingFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent.supervisor.loop import Loop

_READ_BYTES = 65536
_LAST_READS = 64  # what may be left in a pipe at exit, with room for a child that writes on


class OutputStream:
    """One named pipe being copied into rotating files."""

    def __init__(self, loop: Loop, pipe_path: str, spec: dict[str, object]) -> None:
        self._loop = loop
        self._path = pipe_path
        self._fd = -1
        self.files = RotatingFiles(
            str(spec["directory"]),
            str(spec["prefix"]),
            int(str(spec["max_files"])),
            int(str(spec["max_bytes"])),
        )

    def open(self) -> None:
        """Begin reading; an OSError when the log files cannot be written."""
        self.files.open()
        self._open_pipe()

    def reopen(self) -> None:
        """After a restart: log files that cannot be opened now cost output, not the supervisor."""
        self._open_pipe()

    def _open_pipe(self) -> None:
        if not os.path.exists(self._path):
            os.mkfifo(self._path, 0o600)
        self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        self._loop.add(self._fd, lambda _events: self._copy_until_end())

    def open_for_task(self, uid: int | None, gid: int | None) -> int:
        """The task's end; its user may reopen it as /dev/stdout, so the pipe is given to it."""
        if uid is not None and gid is not None and os.geteuid() == 0:
            os.chown(self._path, uid, gid)
        return os.open(self._path, os.O_RDWR)

    def finish(self) -> None:
        """Copy what is left in the pipe, then close the pipe and the files."""
        for _ in range(_LAST_READS):
            if self._fd < 0 or self._copy() <= 0:
                break
        self._stop_reading()
        self.files.close()

    def forget(self) -> None:
        self.finish()
        if os.path.exists(self._path):
            os.unlink(self._path)

    def _copy_until_end(self) -> None:
        if self._copy() == 0:
            self._stop_reading()

    def _copy(self) -> int:
        """Copy one piece. Returns its size, 0 at the stream's end, -1 when nothing is there now."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return -1
        self.files.write(data)
        return len(data)

    def _stop_reading(self) -> None:
        if self._fd >= 0:
            self._loop.remove(self._fd)
            os.close(self._fd)
            self._fd = -1
