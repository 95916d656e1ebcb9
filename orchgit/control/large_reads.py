"""Reads of the state that grow with it: beside the event loop where they look at many objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

T = TypeVar("T")

MANY = 200
"""So many allocations are read and judged in 2 ms, about as long as a thread takes to begin."""


async def read_state(
    store: Store, read: Callable[[Snapshot], T], count: Callable[[Snapshot], int]
) -> T:
    """Returns what `read` makes of a snapshot; in a thread if `count` says that it looks at many
    objects. The state may change meanwhile."""
    with store.snapshot() as snapshot:
        if count(snapshot) <= MANY:
            return read(snapshot)

    def beside() -> T:
        with store.snapshot() as snapshot:
            return read(snapshot)

    return await asyncio.to_thread(beside)
