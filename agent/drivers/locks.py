"""One lock per task attempt, which exists only while it is held or awaited."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class StartLocks:
    """Two starts of one attempt at once would race over what a start prepares."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
