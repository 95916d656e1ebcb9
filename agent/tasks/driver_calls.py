"""Calls to a task's driver, repeated while the driver cannot answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from agent.loops import retry_delay_s
from agent.tasks.progress import TaskProgress
from agent.tasks.task_state import TaskEventType
from orchgit.clock import Clock
from orchgit.errors import DriverError, OrchgitError

T = TypeVar("T")

_log = structlog.get_logger(component="agent")

_MAX_RETRY_STEPS = 3
"""The longest wait is 4 s: a stop or a restart waits for the answer."""


async def until_answered(
    what: str, call: Callable[[], Awaitable[T]], progress: TaskProgress, clock: Clock
) -> T | DriverError:
    """Returns the driver's answer, or its error when that is not recoverable.

    A driver that cannot answer now (an engine that is down) is asked again: its task may run on.
    """
    failures = 0
    while True:
        try:
            return await call()
        except (OrchgitError, OSError) as error:
            if isinstance(error, DriverError) and not error.recoverable:
                _log.warning(f"cannot {what} task", task=progress.key, error=str(error))
                return error
            if not failures:
                _log.warning(
                    f"cannot {what} task now; trying again until the driver answers",
                    task=progress.key,
                    error=str(error),
                )
                progress.happened(TaskEventType.DRIVER, f"Waiting for the driver: {error}")
        await clock.sleep(retry_delay_s(min(failures, _MAX_RETRY_STEPS)))
        failures += 1
