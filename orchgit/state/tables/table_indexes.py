"""The index at which each table last changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from orchgit.state.tables.base import TableReads


class TableIndexReads(TableReads):
    def all(self) -> dict[str, int]:
        rows = self._rows("SELECT name, idx FROM table_indexes")
        return dict(cast(list[tuple[str, int]], rows))

    def newest(self, *tables: str) -> int:
        """Returns the newest index at which any of these tables changed; at least 1."""
        marks = ", ".join("?" * len(tables))
        sql = f"SELECT max(idx) FROM table_indexes WHERE name IN ({marks})"  # noqa: S608
        return max(1, self._number(sql, tables))


class TableIndexWrites(TableIndexReads):
    def put_all(self, indexes: Mapping[str, int]) -> None:
        sql = "INSERT OR REPLACE INTO table_indexes VALUES (?, ?)"
        self._connection.executemany(sql, indexes.items())
