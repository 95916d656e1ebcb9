"""Tables that hold one struct per row: key and query columns beside a msgpack body."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

Values = Sequence[object]


class BodyTable(Generic[T]):
    """SQL for a table whose columns are attributes of the struct.

    `columns` are names separated by spaces, the key first; `name=path.of.attribute` where the
    column is not called like the attribute.
    """

    def __init__(self, name: str, struct: type[T], columns: str) -> None:
        paths = {}
        for text in columns.split():
            column, _, path = text.partition("=")
            paths[column] = path or column
        self.name = name
        self.columns = tuple(paths)
        self.key = next(iter(paths))
        self._decoder = msgspec.msgpack.Decoder(struct)
        self._encode = msgspec.msgpack.Encoder().encode
        self._values: Callable[[T], tuple[object, ...]] = attrgetter(*paths.values())
        names = ", ".join((*paths, "body"))
        marks = ", ".join("?" * (len(paths) + 1))
        # Not the key: it is the same, and its index would be written for nothing.
        changing = [column for column in (*paths, "body") if column != self.key]
        updates = ", ".join(f"{column} = excluded.{column}" for column in changing)
        insert = f"INSERT INTO {name} ({names}) VALUES ({marks}) ON CONFLICT ({self.key})"  # noqa: S608
        self._insert = f"{insert} DO NOTHING"
        self._upsert = f"{insert} DO UPDATE SET {updates}"
        self._select = f"SELECT body FROM {name}"  # noqa: S608

    def get(self, connection: sqlite3.Connection, key: str) -> T | None:
        row = connection.execute(f"{self._select} WHERE {self.key} = ?", (key,)).fetchone()
        return self._decoder.decode(row[0]) if row else None

    def find(
        self,
        connection: sqlite3.Connection,
        where: str = "",
        values: Values = (),
        order: str = "",
    ) -> list[T]:
        """Returns the rows that match a constant SQL condition, ordered by key unless `order` is
        given."""
        condition = f"WHERE {where}" if where else ""
        query = f"{self._select} {condition} ORDER BY {order or self.key}"
        decode = self._decoder.decode
        return [decode(body) for (body,) in connection.execute(query, tuple(values))]

    def put(self, connection: sqlite3.Connection, structs: Iterable[T]) -> None:
        connection.executemany(self._upsert, self._rows(structs))

    def insert(self, connection: sqlite3.Connection, structs: Iterable[T]) -> int:
        """Returns how many of them were new; rows that were stored already stay as they are."""
        return connection.executemany(self._insert, self._rows(structs)).rowcount

    def _rows(self, structs: Iterable[T]) -> list[tuple[object, ...]]:
        return [(*self._values(struct), self._encode(struct)) for struct in structs]

    def delete(self, connection: sqlite3.Connection, keys: Iterable[str]) -> int:
        """Returns how many of them were stored."""
        statement = f"DELETE FROM {self.name} WHERE {self.key} = ?"  # noqa: S608
        return connection.executemany(statement, [(key,) for key in keys]).rowcount


def conditions(**equal: object) -> tuple[str, list[object]]:
    """Returns `a = ? AND b = ?` and its values, for the arguments that are not None."""
    given = {column: value for column, value in equal.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in given), list(given.values())


def starting_with(column: str, prefix: str) -> tuple[str, list[object]]:
    """Returns a condition that an index on the column can serve; an empty one for no prefix."""
    if not prefix:
        return "", []
    return f"({column} >= ? AND {column} < ?)", [prefix, prefix + "\U0010ffff"]


def both(*parts: tuple[str, list[object]]) -> tuple[str, list[object]]:
    """Returns the conditions joined by AND; empty ones are left out."""
    texts = [text for text, _ in parts if text]
    return " AND ".join(texts), [value for _, values in parts for value in values]
