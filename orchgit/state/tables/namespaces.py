"""Namespaces."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.node import Namespace
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

NAMESPACES = BodyTable("namespaces", Namespace, "name create_index modify_index")


class NamespaceReads(TableReads):
    def get(self, name: str) -> Namespace | None:
        return NAMESPACES.get(self._connection, name)

    def all(self) -> list[Namespace]:
        return NAMESPACES.find(self._connection)

    def count(self) -> int:
        return self._number("SELECT count(*) FROM namespaces")


class NamespaceWrites(NamespaceReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def has(self, name: str) -> bool:
        cached = self._entry.cache.namespaces
        if name not in cached and self.get(name) is not None:
            cached.add(name)
        return name in cached

    def put_all(self, namespaces: Sequence[Namespace]) -> None:
        NAMESPACES.put(self._connection, namespaces)
        self._entry.changed("namespaces", [namespace.name for namespace in namespaces])

    def delete_all(self, names: Sequence[str]) -> None:
        NAMESPACES.delete(self._connection, names)
        self._entry.cache.namespaces.difference_update(names)
        self._entry.changed("namespaces", names)
