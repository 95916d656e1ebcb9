"""Waiting for several things at once, until the first of them has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def wait_first(*waits: Awaitable[Any]) -> AsyncIterator[tuple[asyncio.Future[Any], ...]]:
    """Inside, at least one has ended, with a result or an exception that `result()` of its future
    gives; they come in the order in which they were given. Outside, all have ended: those that
    still go on are cancelled."""
    futures = tuple(asyncio.ensure_future(wait) for wait in waits)
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        yield futures
    finally:
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
