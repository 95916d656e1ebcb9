"""Readings that are kept until one of their tables changes: what every request asks for again."""

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
        self._found: tuple[int, T] | None = None
        """The tables' index before the reading, and what was read."""

    def of(self, store: Store) -> T:
        index = store.watch.index(self._tables)
        if self._found is None or self._found[0] != index:
            with store.snapshot() as snapshot:
                self._found = index, self._read(snapshot)
        return self._found[1]
