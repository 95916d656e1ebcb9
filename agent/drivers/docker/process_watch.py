"""Notices that a container's process has ended, where the engine does not notice it.

Podman learns of the end from conmon, a process beside the container. Where conmon was killed,
Podman says of the container for ever that it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

NOTICE_S = 10.0
"""How long an engine has to notice the end itself: it knows the exit code."""


class ProcessWatch:
    """Calls `on_end` once, on the event loop: when the container's process, `pid`, has ended, or at
    once if it is not there."""

    def __init__(self, pid: int, container: str, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._pidfd = _open(pid, container)
        loop = asyncio.get_running_loop()
        if self._pidfd < 0:
            loop.call_soon(on_end)
        else:
            loop.add_reader(self._pidfd, self._ended)

    def close(self) -> None:
        """Ends the watch; may be repeated."""
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _ended(self) -> None:
        self.close()
        self._on_end()


def _open(pid: int, container: str) -> int:
    """Returns a pidfd, or -1 where the process has ended, and `pid` is nobody's or another one's:
    the control groups of a container's process have its id in their names."""
    with contextlib.suppress(OSError, ValueError):
        pidfd = os.pidfd_open(pid)
        with contextlib.suppress(OSError):
            if container in Path(f"/proc/{pid}/cgroup").read_text():
                return pidfd
        os.close(pidfd)
    return -1
