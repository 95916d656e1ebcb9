"""What the allocations of a namespace take."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.model.quota import QuotaAmounts
from orchgit.state.chunks import chunks
from orchgit.state.tables.allocations import TERMINAL
from orchgit.state.tables.base import TableReads


class NamespaceUsageReads(TableReads):
    def without_cores(self, namespace: str) -> QuotaAmounts:
        """Returns what the namespace's live allocations take, without those that reserve cores."""
        sql = f"""SELECT total(cpu_shares), total(memory_mb), total(memory_max_mb)
            FROM allocations WHERE namespace = ? AND NOT has_cores AND NOT {TERMINAL}"""  # noqa: S608
        ((cpu, memory_mb, memory_max_mb),) = self._connection.execute(sql, (namespace,))
        return QuotaAmounts(int(cpu), 0, int(memory_mb), int(memory_max_mb))

    def ids_with_cores(self, namespace: str) -> list[str]:
        """Returns the namespace's live allocations that reserve cores."""
        sql = f"""SELECT id FROM allocations
            WHERE namespace = ? AND has_cores AND NOT {TERMINAL}"""  # noqa: S608
        return [str(alloc_id) for (alloc_id,) in self._connection.execute(sql, (namespace,))]

    def namespaces_of_ended(self, ids: Iterable[str]) -> set[str]:
        """Returns the namespaces of those of the allocations that are to run no more, or have
        ended."""
        found: set[str] = set()
        for chunk in chunks(ids, 500):
            sql = f"""SELECT DISTINCT namespace FROM allocations
                WHERE id IN ({", ".join("?" * len(chunk))}) AND {TERMINAL}"""  # noqa: S608
            found.update(namespace for (namespace,) in self._connection.execute(sql, chunk))
        return found
