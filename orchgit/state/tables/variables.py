"""Variables and their locks."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.variable import StoredVariable, variable_key
from orchgit.state.body_table import BodyTable, both, conditions, starting_with
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

VARIABLES = BodyTable(
    "variables",
    StoredVariable,
    "id=key namespace path key_id lock_id create_index modify_index",
)


class VariableReads(TableReads):
    def get(self, namespace: str, path: str) -> StoredVariable | None:
        return VARIABLES.get(self._connection, variable_key(namespace, path))

    def all(self, namespace: str | None = None, prefix: str = "") -> list[StoredVariable]:
        """Returns them ordered by namespace and path; `prefix` of their paths."""
        where, values = both(conditions(namespace=namespace), starting_with("path", prefix))
        return VARIABLES.find(self._connection, where, values, "namespace, path")

    def locked(self) -> list[StoredVariable]:
        return VARIABLES.find(self._connection, "lock_id != ''")

    def not_sealed_by(self, key_id: str, limit: int) -> list[StoredVariable]:
        """Returns at most `limit` of the variables that another root key seals."""
        return VARIABLES.find(self._connection, "key_id != ?", [key_id], f"id LIMIT {int(limit)}")

    def any_sealed_by(self, key_id: str) -> bool:
        sql = "SELECT 1 FROM variables WHERE key_id = ? LIMIT 1"
        return self._connection.execute(sql, (key_id,)).fetchone() is not None


class VariableWrites(VariableReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, variable: StoredVariable, lock_changes: bool) -> None:
        VARIABLES.put(self._connection, [variable])
        self._entry.changed("variables", [variable.key])
        if lock_changes:
            self._entry.changed("variable_locks", [variable.key])

    def put_renewed_lock(self, variable: StoredVariable) -> None:
        """Wakes nobody who waits for the variable's content."""
        VARIABLES.put(self._connection, [variable])
        self._entry.changed("variable_locks", [variable.key])

    def put_resealed(self, variables: Sequence[StoredVariable]) -> None:
        """Store the same content, sealed by another root key; wakes nobody."""
        VARIABLES.put(self._connection, variables)

    def delete(self, variable: StoredVariable) -> None:
        VARIABLES.delete(self._connection, [variable.key])
        self._entry.changed("variables", [variable.key])
        self._entry.changed("variable_locks", [variable.key])
