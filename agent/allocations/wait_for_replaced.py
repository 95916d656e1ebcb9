"""Waiting for the allocations of this node that a new allocation replaces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent.paths import AllocPaths
from orchgit.model.allocation import Allocation


async def wait_for_replaced(
    alloc: Allocation,
    wait_ended: Callable[[str], Awaitable[AllocPaths | None]],
    stop_asked: asyncio.Event,
) -> AllocPaths | None:
    """Waits until the previous allocation and those that `alloc` preempts have ended here, or
    until `alloc` itself is to stop. Returns where the previous allocation's files are, if they are
    still on this node."""
    others = [alloc.previous_allocation, *(alloc.preempted_allocations or ())]
    stop = asyncio.ensure_future(stop_asked.wait())
    waits = [asyncio.ensure_future(wait_ended(id_)) for id_ in others if id_]
    try:
        for wait in waits:
            await asyncio.wait({wait, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in (stop, *waits):
            if not future.done():
                future.cancel()
    if stop_asked.is_set() or not alloc.previous_allocation:
        return None
    return waits[0].result()
