"""The contract of the state's caches: what each one holds, and what makes it invalid.

A cache holds values that were read from the state, so that they need not be read again. Three rules
hold for all of them: a cached value equals what a read at the same index would return; no result
depends on whether a value was cached; the writer of a row drops the values that were read from it.

- `writer_cache.WriterCache`: what the sole writer read or wrote (create indexes of evaluations,
  inputs of job statuses, names of namespaces, the index offset). A value is dropped when the writer
  changes its row; all are when an entry is undone, a transaction rolled back or the state replaced.
- `tables_cache.TablesCache`: one value derived from whole tables; valid while their indexes stay.
- `settings_cache.SettingsCache`: the settings that every evaluation reads; `ClusterColumns.refresh`
  makes a new one when the index of one of its tables has moved.
- `ClusterColumns.memo`: arrays derived from the nodes alone; emptied when any node changes.
- `cluster_view.SnapshotClusterView`: job versions and volumes; valid as long as its snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT = 4096


class Cache(dict[K, V]):
    """Values by key, at most `LIMIT` of them; a value too many empties the cache first."""

    def put(self, key: K, value: V) -> None:
        if len(self) >= LIMIT:
            self.clear()
        self[key] = value

    def put_all(self, items: Collection[tuple[K, V]]) -> None:
        """Caches none of `items` if they alone are more than `LIMIT`."""
        if len(self) + len(items) > LIMIT:
            self.clear()
        if len(items) <= LIMIT:
            self.update(items)

    def load(self, key: K, read: Callable[[], V]) -> V:
        """Returns the cached value, or caches what `read` returns."""
        if key not in self:
            self.put(key, read())
        return self[key]
