"""Ends tasks and parts of a server: failures are logged, and none keeps the others from
stopping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import structlog

from orchgit.errors import OrchgitError

_log = structlog.get_logger(component="server")


def log_failure(task: asyncio.Task[None]) -> None:
    """Logs the exception of a task that failed; for `add_done_callback`."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a loop of the server failed", task=task.get_name(), exc_info=error)


async def end_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancels the tasks and waits for them; the list is empty afterwards."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()


async def within(deadline_s: float, work: Awaitable[None], part: str) -> None:
    """Waits for a part to stop; one that does not stop in time is logged and left."""
    try:
        async with asyncio.timeout(deadline_s):
            await work
    except TimeoutError:
        _log.warning("a part did not stop in time", part=part)
    except OrchgitError as error:
        _log.warning("a part did not stop cleanly", part=part, error=str(error))
