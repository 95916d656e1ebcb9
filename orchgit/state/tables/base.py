"""What reads and writes of every aggregate share: a connection; for writes, the entry at work."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from orchgit.state.writer_cache import Remembered


class Reads:
    """SQL over one connection inside a read (or write) transaction."""

    connection: sqlite3.Connection

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def _number(self, sql: str, values: Sequence[object] = ()) -> int:
        """The first column of the only row; 0 when there is none."""
        row = self.connection.execute(sql, values).fetchone()
        return int(row[0] or 0) if row else 0


class Writes(Reads):
    """The entry that is being applied: its index, its proposer's time, what it changed."""

    index: int
    now_ns: int
    noted: list[tuple[str, Iterable[str]]]
    """(table, keys) of what the entry changed."""
    remembered: Remembered

    def _changed(self, table: str, keys: Iterable[str]) -> None:
        self.noted.append((table, keys))
