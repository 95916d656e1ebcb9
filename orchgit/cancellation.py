"""Cancellation of tasks: whether it was asked for, and work that it must not leave behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def is_canceled() -> bool:
    """Whether the current task itself was asked to end. A CancelledError may also come from a task
    that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def to_thread_until_done(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Does what `asyncio.to_thread` does, for work under a lock of the event loop: a cancellation
    is raised only when the thread has ended, so that the lock is not given away before."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((running,))
        if not running.cancelled():
            running.exception()  # nobody waits for it any more
        raise
