"""Binding rules of auth methods."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.acl import AclBindingRule
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

BINDING_RULES = BodyTable(
    "acl_binding_rules", AclBindingRule, "id auth_method create_index modify_index"
)


class AclBindingRuleReads(TableReads):
    def get(self, rule_id: str) -> AclBindingRule | None:
        return BINDING_RULES.get(self._connection, rule_id)

    def all(self, auth_method: str | None = None) -> list[AclBindingRule]:
        """Returns the rules, or those of one auth method, ordered by id."""
        where, values = conditions(auth_method=auth_method)
        return BINDING_RULES.find(self._connection, where, values)


class AclBindingRuleWrites(AclBindingRuleReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, rule: AclBindingRule) -> None:
        BINDING_RULES.put(self._connection, [rule])
        self._entry.changed("acl_binding_rules", [rule.id])

    def delete_all(self, rule_ids: Sequence[str]) -> None:
        BINDING_RULES.delete(self._connection, rule_ids)
        self._entry.changed("acl_binding_rules", rule_ids)
