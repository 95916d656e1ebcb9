"""Who last changed what, of the writes that bore a token."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.author import AuthoredChange
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

MAX_ROWS = 100_000
"""More than these are forgotten, the oldest first."""
_ENTRIES_BETWEEN_SWEEPS = 1024

AUTHORED_CHANGES = BodyTable(
    "authored_changes", AuthoredChange, "id kind key create_index modify_index"
)


class AuthoredChangeReads(TableReads):
    def get(self, kind: str, key: str) -> AuthoredChange | None:
        return AUTHORED_CHANGES.get(self._connection, f"{kind}:{key}")

    def of_job(self, namespace: str, job_id: str, versions: Sequence[int]) -> list[AuthoredChange]:
        """Returns who made these versions of the job, as far as that is known."""
        found = [self.get("jobs", f"{namespace}/{job_id}@{version}") for version in versions]
        return [each for each in found if each is not None]

    def all(self) -> list[AuthoredChange]:
        return AUTHORED_CHANGES.find(self._connection)


class AuthoredChangeWrites(AuthoredChangeReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, changes: Sequence[AuthoredChange]) -> None:
        AUTHORED_CHANGES.put(self._connection, changes)
        self._entry.changed("authored_changes", [each.id for each in changes])
        if self._entry.index % _ENTRIES_BETWEEN_SWEEPS == 0:
            self._connection.execute(
                "DELETE FROM authored_changes WHERE id IN (SELECT id FROM authored_changes "
                "ORDER BY modify_index DESC, id LIMIT -1 OFFSET ?)",
                (MAX_ROWS,),
            )
