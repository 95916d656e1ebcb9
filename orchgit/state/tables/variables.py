"""Variables, their locks, and root keys."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.variable import RootKey, RootKeyState, StoredVariable, variable_key
from orchgit.state.body_table import BodyTable, both, conditions, starting_with
from orchgit.state.tables.base import Reads, Writes

VARIABLES = BodyTable(
    "variables",
    StoredVariable,
    "id=key namespace path key_id lock_id create_index modify_index",
)
ROOT_KEYS = BodyTable("root_keys", RootKey, "key_id state create_index modify_index")


class VariableReads(Reads):
    def variable(self, namespace: str, path: str) -> StoredVariable | None:
        return VARIABLES.get(self.connection, variable_key(namespace, path))

    def variables(self, namespace: str | None = None, prefix: str = "") -> list[StoredVariable]:
        """Ordered by namespace and path."""
        where, values = both(conditions(namespace=namespace), starting_with("path", prefix))
        return VARIABLES.find(self.connection, where, values, "namespace, path")

    def locked_variables(self) -> list[StoredVariable]:
        return VARIABLES.find(self.connection, "lock_id != ''")

    def variables_sealed_by_others(self, key_id: str, limit: int) -> list[StoredVariable]:
        """Some of those whose items are under another root key."""
        return VARIABLES.find(self.connection, "key_id != ?", [key_id], f"id LIMIT {int(limit)}")

    def is_root_key_used(self, key_id: str) -> bool:
        sql = "SELECT 1 FROM variables WHERE key_id = ? LIMIT 1"
        return self.connection.execute(sql, (key_id,)).fetchone() is not None

    def root_key(self, key_id: str) -> RootKey | None:
        return ROOT_KEYS.get(self.connection, key_id)

    def is_root_key(self, key_id: str) -> bool:
        sql = "SELECT 1 FROM root_keys WHERE key_id = ?"
        return self.connection.execute(sql, (key_id,)).fetchone() is not None

    def root_keys(self) -> list[RootKey]:
        """Newest first."""
        return ROOT_KEYS.find(self.connection, order="create_index DESC, key_id")

    def active_root_key(self) -> RootKey | None:
        found = ROOT_KEYS.find(self.connection, "state = ?", [RootKeyState.ACTIVE])
        return found[0] if found else None


class VariableWrites(VariableReads, Writes):
    def put_variable(self, variable: StoredVariable, lock_changes: bool) -> None:
        VARIABLES.put(self.connection, [variable])
        self._changed("variables", [variable.key])
        if lock_changes:
            self._changed("variable_locks", [variable.key])

    def put_renewed_lock(self, variable: StoredVariable) -> None:
        """Nobody who waits for the variable's content is woken."""
        VARIABLES.put(self.connection, [variable])
        self._changed("variable_locks", [variable.key])

    def put_resealed(self, variables: Sequence[StoredVariable]) -> None:
        """The same content under another root key."""
        VARIABLES.put(self.connection, variables)

    def delete_variable(self, variable: StoredVariable) -> None:
        VARIABLES.delete(self.connection, [variable.key])
        self._changed("variables", [variable.key])
        self._changed("variable_locks", [variable.key])

    def put_root_key(self, key: RootKey) -> None:
        ROOT_KEYS.put(self.connection, [key])
        self._changed("root_keys", [key.key_id])

    def delete_root_key(self, key_id: str) -> None:
        ROOT_KEYS.delete(self.connection, [key_id])
        self._changed("root_keys", [key_id])
