"""Waits for what other processes and the kernel do; they send no event, so they are asked again.

Within one process a test waits for an index, an event or a queue instead.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from tests.support.pacing import pause, pause_blocking

T = TypeVar("T")

_POLL_S = 0.01


async def until(
    condition: Callable[[], T | Awaitable[T | None] | None],
    timeout_s: float = 60.0,
    problem: str = "the condition does not become true",
    *,
    retried: tuple[type[Exception], ...] = (),
    every_s: float = _POLL_S,
) -> T:
    """Returns the first true value of `condition`, which may be a coroutine function.

    Errors of `retried` count as "not yet". Raises AssertionError after `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    error: Exception | None = None
    while True:
        try:
            value = condition()
            if found := (await value if inspect.isawaitable(value) else value):
                return cast(T, found)
        except retried as failed:
            error = failed
        assert time.monotonic() < deadline_s, f"{problem} within {timeout_s:g} s ({error})"
        await pause(every_s, problem)


def until_blocking(
    condition: Callable[[], T | None],
    timeout_s: float = 60.0,
    problem: str = "the condition does not become true",
    *,
    retried: tuple[type[Exception], ...] = (),
    every_s: float = _POLL_S,
) -> T:
    """Does the same as `until`, on a thread without an event loop."""
    deadline_s = time.monotonic() + timeout_s
    error: Exception | None = None
    while True:
        try:
            if found := condition():
                return found
        except retried as failed:
            error = failed
        assert time.monotonic() < deadline_s, f"{problem} within {timeout_s:g} s ({error})"
        pause_blocking(every_s, problem)
