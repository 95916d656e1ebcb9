"""Doing the same with many things: side by side, so that their log entries share a sync, yet not
all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 64


async def each_together(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """Raises what the first of them raises, when those beside it have ended."""
    for start in range(0, len(items), AT_ONCE):
        piece = items[start : start + AT_ONCE]
        ends = await asyncio.gather(*(work(item) for item in piece), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
