"""Sources of job files."""

from __future__ import annotations

from orchgit.model.source import Source
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

SOURCES = BodyTable("sources", Source, "name create_index modify_index")


class SourceReads(TableReads):
    def get(self, name: str) -> Source | None:
        return SOURCES.get(self._connection, name)

    def all(self) -> list[Source]:
        return SOURCES.find(self._connection)


class SourceWrites(SourceReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, source: Source) -> None:
        SOURCES.put(self._connection, [source])
        self._entry.changed("sources", [source.name])

    def delete(self, name: str) -> None:
        SOURCES.delete(self._connection, [name])
        self._entry.changed("sources", [name])
