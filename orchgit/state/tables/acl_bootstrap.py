"""Whether, and at which index, access control was bootstrapped."""

from __future__ import annotations

from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads


class AclBootstrapReads(TableReads):
    def index(self) -> int:
        """Returns the index of the last bootstrap; 0 before the first."""
        return self._number("SELECT bootstrap_index FROM acl_bootstrap")


class AclBootstrapWrites(AclBootstrapReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, index: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO acl_bootstrap VALUES (1, ?)", (index,))
        self._entry.changed("acl_bootstrap", ["bootstrap"])
