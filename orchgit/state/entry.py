"""The log entry that is being applied, as the tables that write see it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from orchgit.state.writer_cache import WriterCache


class EntryContext:
    """One object for all entries of a transaction; `begin` turns it into the next entry."""

    def __init__(self, connection: sqlite3.Connection, cache: WriterCache) -> None:
        self.connection = connection
        self.cache = cache
        self.index = 0
        """The index of the state at which the entry lies."""
        self.now_ns = 0
        """The time of the entry's proposer."""
        self.changes: list[tuple[str, Iterable[str]]] = []
        """(table, keys) of what the entry changed so far."""

    def begin(self, index: int, now_ns: int) -> None:
        self.index, self.now_ns = index, now_ns
        self.changes.clear()

    def changed(self, table: str, keys: Iterable[str]) -> None:
        """Record that these keys of the table changed: who waits for them is woken."""
        self.changes.append((table, keys))
