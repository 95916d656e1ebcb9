"""A value that many requests need, cached until one of the tables it was read from changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

T = TypeVar("T")


class TablesCache(Generic[T]):
    """Belongs to the event loop's thread. Never older than what was published to the watch."""

    def __init__(self, tables: Collection[str], read: Callable[[Snapshot], T]) -> None:
        self._tables = tables
        self._read = read
        self._cached: tuple[int, T] | None = None
        """(index of the tables before the read, the value)."""

    def get(self, store: Store) -> T:
        index = store.watch.index(self._tables)
        if self._cached is None or self._cached[0] != index:
            with store.snapshot() as snapshot:
                self._cached = index, self._read(snapshot)
        return self._cached[1]
