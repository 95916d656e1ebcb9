"""Keeps the newest events, so that a subscriber may begin a little in the past."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Sequence
from typing import Protocol

from orchgit.model.event import Event

MAX_BATCHES = 256


class EventBatch(Protocol):
    """The entries that were applied together (`orchgit.replication.events.AppliedBatch`).

    Their events are built when they are first asked for.
    """

    @property
    def index(self) -> int: ...

    @property
    def events(self) -> Sequence[Event]: ...


class EventBuffer:
    """Filled from the feed of applied batches, on the event loop; readers keep their own place in
    it.

    A reader that falls further behind than the buffer reaches goes on with the oldest kept batch.
    """

    def __init__(self) -> None:
        self._batches: list[EventBatch] = []
        self._changed = asyncio.Event()
        self.closed = False
        self.gaps = 0
        """How often events were missed. A stream that would read across a gap ends."""

    def add(self, batch: EventBatch) -> None:
        self._batches.append(batch)
        if len(self._batches) > MAX_BATCHES:
            del self._batches[: len(self._batches) - MAX_BATCHES]
        self._wake()

    def miss(self) -> None:
        """Notes a gap: the state was replaced whole, so its changes are unknown."""
        self._batches.clear()
        self.gaps += 1
        self._wake()

    def close(self) -> None:
        """Ends every reader; a server calls this before it stops."""
        self.closed = True
        self._wake()

    def after(self, index: int) -> Sequence[EventBatch]:
        start = bisect.bisect_right(self._batches, index, key=lambda batch: batch.index)
        return self._batches[start:]

    @property
    def last_index(self) -> int:
        return self._batches[-1].index if self._batches else 0

    async def wait(self, timeout_s: float) -> bool:
        """Waits for events; returns True if some were added, or the buffer was closed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
