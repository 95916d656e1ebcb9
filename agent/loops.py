"""Starting a loop of the agent so that its failure is never silent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

_log = structlog.get_logger(component="agent")


def spawn(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """A named asyncio task; an error nobody expected is logged with its story."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_tell)
    return task


def _tell(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("a loop of the agent failed", loop=task.get_name(), exc_info=problem)
