"""The refs of built-in repositories. A change is noted under the name of the source."""

from __future__ import annotations

from orchgit.model.source import GitRef
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

GIT_REFS = BodyTable("git_refs", GitRef, "id source name object_id create_index modify_index")


class GitRefReads(TableReads):
    def get(self, source: str, name: str) -> GitRef | None:
        return GIT_REFS.get(self._connection, f"{source}:{name}")

    def of_source(self, source: str) -> dict[str, str]:
        """Returns each ref of a built-in repository with the id of its object, sorted by name."""
        sql = "SELECT name, object_id FROM git_refs WHERE source = ? ORDER BY name"
        return {str(name): str(object_id) for name, object_id in self._rows(sql, (source,))}

    def repositories(self) -> list[str]:
        """Returns the names of the built-in repositories that hold a ref, followed or not."""
        rows = self._rows("SELECT DISTINCT source FROM git_refs ORDER BY source")
        return [str(source) for (source,) in rows]


class GitRefWrites(GitRefReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, ref: GitRef) -> None:
        GIT_REFS.put(self._connection, [ref])
        self._entry.changed("git_refs", [ref.source])

    def delete(self, source: str, name: str) -> None:
        GIT_REFS.delete(self._connection, [f"{source}:{name}"])
        self._entry.changed("git_refs", [source])
