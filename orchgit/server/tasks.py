"""Tasks and parts of a server: what failed is said, and none keeps the others from stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import structlog

from orchgit.errors import OrchgitError

_log = structlog.get_logger(component="server")


def log_failure(task: asyncio.Task[None]) -> None:
    """For `add_done_callback`."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a loop of the server ended", task=task.get_name(), exc_info=error)


async def end_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel them and wait; the list is empty afterwards."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()


async def within(deadline_s: float, work: Awaitable[None], part: str) -> None:
    """A part that does not stop in time must not keep the others from stopping."""
    try:
        async with asyncio.timeout(deadline_s):
            await work
    except TimeoutError:
        _log.warning("a part did not stop in time", part=part)
    except OrchgitError as error:
        _log.warning("a part did not stop cleanly", part=part, error=str(error))
