"""ACL policies."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.acl import AclPolicy
from orchgit.state.body_table import BodyTable, starting_with
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

ACL_POLICIES = BodyTable("acl_policies", AclPolicy, "name create_index modify_index")


class AclPolicyReads(TableReads):
    def get(self, name: str) -> AclPolicy | None:
        return ACL_POLICIES.get(self._connection, name)

    def all(self, prefix: str = "") -> list[AclPolicy]:
        """Returns them ordered by name; `prefix` of that."""
        where, values = starting_with("name", prefix)
        return ACL_POLICIES.find(self._connection, where, values)


class AclPolicyWrites(AclPolicyReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, policies: Sequence[AclPolicy]) -> None:
        ACL_POLICIES.put(self._connection, policies)
        self._entry.changed("acl_policies", [policy.name for policy in policies])

    def delete_all(self, names: Sequence[str]) -> None:
        ACL_POLICIES.delete(self._connection, names)
        self._entry.changed("acl_policies", names)
