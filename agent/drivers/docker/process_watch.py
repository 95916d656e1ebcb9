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

from agent.supervisor import proc

NOTICE_S = 10.0
"""How long an engine has to notice the end itself: it knows the exit code."""


def container_ticks(pid: int, container: str) -> int:
    """Returns when the container's process started, in ticks of the machine; 0 where `pid` is not
    that process, as the engine may count pids in a namespace that is not the agent's.

    The container's id stands in the command line of its conmon, the parent, and in the name of its
    control group, which it has unless Podman is rootless on control groups of version 1.
    """
    ticks = proc.start_ticks(pid)
    with contextlib.suppress(OSError, IndexError):
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        for file in (f"/proc/{parent}/cmdline", f"/proc/{pid}/cgroup"):
            if container in Path(file).read_text():
                return ticks
    return 0


class ProcessWatch:
    """Calls `on_end` once, on the event loop: when the process `pid` that started at `ticks` has
    ended, or soon if it is not there any more."""

    def __init__(self, pid: int, ticks: int, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._pidfd = proc.open_pidfd(pid, ticks)
        loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        if self._pidfd < 0:
            self._soon = loop.call_soon(on_end)
        else:
            loop.add_reader(self._pidfd, self._ended)

    def close(self) -> None:
        """Ends the watch; may be repeated."""
        if self._soon is not None:
            self._soon.cancel()
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _ended(self) -> None:
        self.close()
        self._on_end()
