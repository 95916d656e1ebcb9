"""ACL roles."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.acl import AclRole
from orchgit.state.body_table import BodyTable, starting_with
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

ACL_ROLES = BodyTable("acl_roles", AclRole, "id name create_index modify_index")


class AclRoleReads(TableReads):
    def get(self, role_id: str) -> AclRole | None:
        return ACL_ROLES.get(self._connection, role_id)

    def of_name(self, name: str) -> AclRole | None:
        found = ACL_ROLES.find(self._connection, "name = ?", [name])
        return found[0] if found else None

    def all(self, prefix: str = "") -> list[AclRole]:
        """Returns them ordered by id; `prefix` of that."""
        where, values = starting_with("id", prefix)
        return ACL_ROLES.find(self._connection, where, values)


class AclRoleWrites(AclRoleReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, role: AclRole) -> None:
        ACL_ROLES.put(self._connection, [role])
        self._entry.changed("acl_roles", [role.id])

    def delete_all(self, role_ids: Sequence[str]) -> None:
        ACL_ROLES.delete(self._connection, role_ids)
        self._entry.changed("acl_roles", role_ids)
