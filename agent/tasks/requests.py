"""What others ask of one task: to start, to restart, to end for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from orchgit.model.allocation import TaskEvent
from orchgit.wait_first import wait_first


class TaskRequests:
    """The open requests of one task. A kill outweighs a restart; the first of each counts."""

    def __init__(self) -> None:
        self.may_start = asyncio.Event()
        """Set once the lifecycle allows the task to start."""
        self.kill: TaskEvent | None = None
        self.restart: TaskEvent | None = None
        self.restart_counts = False
        """Whether the restart policy counts the requested restart as a failure."""
        self.with_delay = True
        """Whether a kill waits for the task's shutdown delay; a restart never does."""
        self._interrupt = asyncio.Event()

    def ask_kill(self, because: TaskEvent, with_delay: bool) -> bool:
        """Returns whether the request is new."""
        if self.kill is not None:
            return False
        self.kill, self.with_delay = because, with_delay
        self._interrupt.set()
        return True

    def ask_restart(self, because: TaskEvent, counts: bool) -> bool:
        """Returns whether the request is new."""
        if self.kill is not None or self.restart is not None:
            return False
        self.restart, self.restart_counts = because, counts
        self._interrupt.set()
        return True

    @property
    def ends_attempt(self) -> bool:
        return self.kill is not None or self.restart is not None

    def clear_restart(self) -> None:
        """The restart has been done, or its reason is gone."""
        self.restart = None
        self._interrupt.clear()

    def clear(self) -> None:
        self.kill = None
        self.clear_restart()

    async def interrupted(self) -> None:
        """Waits until a kill or a restart is asked for."""
        await self._interrupt.wait()

    async def unless_interrupted(self, waiting: Awaitable[object]) -> bool:
        """Returns whether `waiting` ended before a kill or a restart was asked for."""
        async with wait_first(waiting, self.interrupted()) as (work, _):
            if work.done() and not self._interrupt.is_set():
                work.result()
                return True
        return False
