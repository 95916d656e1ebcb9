"""Whether a task is to end, or only waits for one that was canceled."""

from __future__ import annotations

import asyncio


def is_canceled() -> bool:
    """Whether the current task itself was asked to end. A CancelledError may also come from a task
    that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
