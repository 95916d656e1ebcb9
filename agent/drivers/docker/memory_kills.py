"""Whether the kernel ended a container for its memory, where the engine does not tell.

The control groups of version 1 send an event when a group runs out of memory, and another one when
it is removed. The system counts them together: in a group that can be read no more, one of them was
its removal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

_MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


class MemoryKillWatch:
    """Watches the memory group of a container, whose process is `pid`. Sees nothing without one."""

    def __init__(self, pid: int, container: str) -> None:
        self.has_seen_one = False
        self._event_fd = self._control_fd = -1
        group = _memory_group(pid)
        if container not in group:  # it has ended, and the process is another one
            return
        directory = _MEMORY_GROUPS / group.lstrip("/")
        with contextlib.suppress(OSError):
            self._control_fd = os.open(directory / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            (directory / "cgroup.event_control").write_text(f"{self._event_fd} {self._control_fd}")
            asyncio.get_running_loop().add_reader(self._event_fd, self._take)

    def close(self) -> None:
        """Takes what the event loop has not taken yet, and ends the watch; may be repeated."""
        self._take()
        for fd in {self._event_fd, self._control_fd} - {-1}:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
        self._event_fd = self._control_fd = -1

    def _take(self) -> None:
        if self._event_fd != -1 and count_kills(self._event_fd, self._control_fd):
            self.has_seen_one = True


def count_kills(event_fd: int, control_fd: int) -> int:
    """Returns how often the group of `control_fd` ran out of memory since `event_fd` was read."""
    try:
        events = os.eventfd_read(event_fd)
    except OSError:  # nothing has happened
        return 0
    try:
        os.pread(control_fd, 1, 0)
    except OSError:
        return events - 1
    return events


def _memory_group(pid: int) -> str:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return path
    return ""
