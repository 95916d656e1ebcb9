"""Starts the loops of the agent, so that a failure is logged and the loop begins again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from orchgit.backoff import backoff_s
from orchgit.clock import Clock

T = TypeVar("T")

_log = structlog.get_logger(component="agent")

_FIRST_RETRY_S = 0.5
_MAX_RETRY_S = 30.0


def retry_delay_s(failures: int) -> float:
    """How long to wait after so many failures in a row."""
    return backoff_s(failures, _FIRST_RETRY_S, _MAX_RETRY_S)


async def until_done(work: Callable[[], Awaitable[T]], name: str, clock: Clock) -> T:
    """Returns the result of `work`. An unexpected error is logged with its traceback, and the work
    begins anew after a while, as after a restart of the agent: it must find its place again from
    what is stored."""
    failures = 0
    while True:
        try:
            return await work()
        except Exception as error:  # noqa: BLE001 - a loop that dies leaves its task alone for good
            delay_s = retry_delay_s(failures)
            _log.error(
                "a loop of the agent failed; it begins again",
                loop=name,
                delay_s=delay_s,
                exc_info=error,
            )
        failures += 1
        await clock.sleep(delay_s)


def spawn(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Start a named asyncio task; an unexpected error is logged with its traceback."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a loop of the agent failed", loop=task.get_name(), exc_info=error)
