"""The health of each source as it was last recorded."""

from __future__ import annotations

from orchgit.model.source_health import SourceHealthChange
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

SOURCE_HEALTH = BodyTable("source_health", SourceHealthChange, "source create_index modify_index")


class SourceHealthReads(TableReads):
    def get(self, source: str) -> SourceHealthChange | None:
        return SOURCE_HEALTH.get(self._connection, source)

    def all(self) -> list[SourceHealthChange]:
        """Returns them by the source's name."""
        return SOURCE_HEALTH.find(self._connection)


class SourceHealthWrites(SourceHealthReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, change: SourceHealthChange) -> None:
        SOURCE_HEALTH.put(self._connection, [change])
        self._entry.changed("source_health", [change.source])

    def delete(self, source: str) -> None:
        if SOURCE_HEALTH.delete(self._connection, [source]):
            self._entry.changed("source_health", [source])
