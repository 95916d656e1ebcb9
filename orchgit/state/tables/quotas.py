"""Quotas."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.quota import QuotaSpec
from orchgit.state.body_table import BodyTable, starting_with
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

QUOTAS = BodyTable("quotas", QuotaSpec, "name create_index modify_index")


class QuotaReads(TableReads):
    def get(self, name: str) -> QuotaSpec | None:
        return QUOTAS.get(self._connection, name)

    def all(self, prefix: str = "") -> list[QuotaSpec]:
        """Returns them ordered by name; `prefix` of that."""
        where, values = starting_with("name", prefix)
        return QUOTAS.find(self._connection, where, values)


class QuotaWrites(QuotaReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, quotas: Sequence[QuotaSpec]) -> None:
        QUOTAS.put(self._connection, quotas)
        self._entry.changed("quotas", [quota.name for quota in quotas])

    def delete_all(self, names: Sequence[str]) -> None:
        QUOTAS.delete(self._connection, names)
        self._entry.changed("quotas", names)
