"""Auth methods, by which people and programs log in."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.acl import AclAuthMethod
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

AUTH_METHODS = BodyTable("acl_auth_methods", AclAuthMethod, "name key_id create_index modify_index")


class AclAuthMethodReads(TableReads):
    def get(self, name: str) -> AclAuthMethod | None:
        return AUTH_METHODS.get(self._connection, name)

    def all(self) -> list[AclAuthMethod]:
        """Returns them ordered by name."""
        return AUTH_METHODS.find(self._connection)

    def not_sealed_by(self, key_id: str, limit: int) -> list[AclAuthMethod]:
        """Returns at most `limit` of the methods whose secrets another root key seals."""
        where, order = "key_id != '' AND key_id != ?", f"name LIMIT {int(limit)}"
        return AUTH_METHODS.find(self._connection, where, [key_id], order)

    def any_sealed_by(self, key_id: str) -> bool:
        sql = "SELECT 1 FROM acl_auth_methods WHERE key_id = ? LIMIT 1"
        return self._connection.execute(sql, (key_id,)).fetchone() is not None


class AclAuthMethodWrites(AclAuthMethodReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, method: AclAuthMethod) -> None:
        AUTH_METHODS.put(self._connection, [method])
        self._entry.changed("acl_auth_methods", [method.name])

    def put_resealed(self, methods: Sequence[AclAuthMethod]) -> None:
        """Store the same methods, sealed by another root key; wakes nobody."""
        AUTH_METHODS.put(self._connection, methods)

    def delete_all(self, names: Sequence[str]) -> None:
        AUTH_METHODS.delete(self._connection, names)
        self._entry.changed("acl_auth_methods", names)
