"""What the reads of every table share: a connection inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence


class TableReads:
    """Reads of one table.

    A table's class of writes extends its class of reads, and is given the entry at work.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def _number(self, sql: str, values: Sequence[object] = ()) -> int:
        """Returns the first column of the only row; 0 when there is none."""
        row = self._connection.execute(sql, values).fetchone()
        return int(row[0] or 0) if row else 0
