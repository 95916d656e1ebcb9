"""Keeps the newest events, so that a subscriber may begin a little in the past."""

from __future__ import annotations

import asyncio
import bisect
import weakref
from collections import deque
from collections.abc import Sequence

from orchgit.api.encoded_events import EncodedBatch, EventBatch
from orchgit.model.event import Event

MAX_BATCHES = 256
KEPT_BYTES = 32 * 1024 * 1024
"""Of what was encoded last, in `MAX_BATCHES` batches at most; older ones are encoded again for who
still reads them."""


class BufferedBatch:
    """A batch of the buffer. Its encoded form is that of all who read it at the same time."""

    def __init__(self, batch: EventBatch, recent: deque[EncodedBatch]) -> None:
        self._batch = batch
        self._recent = recent
        self._encoded: weakref.ref[EncodedBatch] | None = None

    @property
    def index(self) -> int:
        return self._batch.index

    @property
    def events(self) -> Sequence[Event]:
        return self._batch.events

    def encoded(self) -> EncodedBatch:
        found = self._encoded() if self._encoded is not None else None
        if found is None:
            found = EncodedBatch(self._batch)
            self._encoded = weakref.ref(found)
            self._recent.append(found)
            excess_bytes = sum(each.size_bytes for each in self._recent) - KEPT_BYTES
            while excess_bytes > 0:
                excess_bytes -= self._recent.popleft().size_bytes
        return found


class EventBuffer:
    """Filled from the feed of applied batches, on the event loop; readers keep their own place in
    it.

    A reader that begins before the oldest kept batch begins with that one. A reader whose place
    has left the buffer since then (`dropped_index`) has missed events.
    """

    def __init__(self) -> None:
        self._batches: list[BufferedBatch] = []
        self._recent: deque[EncodedBatch] = deque(maxlen=MAX_BATCHES)
        self._changed = asyncio.Event()
        self.closed = False
        self.gaps = 0
        """How often events were missed. A stream that would read across a gap ends."""
        self.dropped_index = 0
        """That of the newest batch that the buffer keeps no more."""

    def add(self, batch: EventBatch) -> None:
        self._batches.append(BufferedBatch(batch, self._recent))
        if len(self._batches) > MAX_BATCHES:
            last = len(self._batches) - MAX_BATCHES
            self.dropped_index = self._batches[last - 1].index
            del self._batches[:last]
        self._wake()

    def miss(self) -> None:
        """Notes a gap: the state was replaced whole, so its changes are unknown."""
        self._batches.clear()
        self._recent.clear()
        self.dropped_index = 0  # the indexes of another state
        self.gaps += 1
        self._wake()

    def close(self) -> None:
        """Ends every reader; a server calls this before it stops."""
        self.closed = True
        self._wake()

    def after(self, index: int) -> Sequence[BufferedBatch]:
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
