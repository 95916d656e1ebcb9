"""Sources of job files."""

from __future__ import annotations

from orchgit.model.source import Source
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

SOURCES = BodyTable("sources", Source, "name repository=repository_name create_index modify_index")


class SourceReads(TableReads):
    def get(self, name: str) -> Source | None:
        return SOURCES.get(self._connection, name)

    def all(self) -> list[Source]:
        return SOURCES.find(self._connection)

    def of_repository(self, repository: str) -> list[Source]:
        """Returns the sources whose mirror has this name, by name: all sources of a built-in
        repository, or one of another kind."""
        return SOURCES.find(self._connection, "repository = ?", (repository,))

    def by_repository(self) -> dict[str, list[str]]:
        """Returns the names of the sources by the name of their mirror."""
        found: dict[str, list[str]] = {}
        for repository, name in self._rows("SELECT repository, name FROM sources ORDER BY name"):
            found.setdefault(str(repository), []).append(str(name))
        return found


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
