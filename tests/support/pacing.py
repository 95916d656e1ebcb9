"""The only pauses of the tests: time that a test spends on purpose, because the time is its input.

A fault lasts for some seconds, a client leaves time between its requests, a load is measured for a
span. A test that waits for something to happen uses `polling`, an event or an index instead.
"""

from __future__ import annotations

import asyncio
import time


async def pause(seconds: float, why: str) -> None:
    """Lets `seconds` pass; `why` tells the reader what the time is for."""
    await asyncio.sleep(seconds)


def pause_blocking(seconds: float, why: str) -> None:
    """Does the same as `pause`, on a thread without an event loop."""
    time.sleep(seconds)
