"""What entries changed, by table and key: for waiters, subscribers and table indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DERIVED = {
    "allocations_by_node": "allocations",
    "allocations_by_job": "allocations",
    "allocations_by_deployment": "allocations",
    "evaluations_by_job": "evaluations",
    "deployments_by_job": "deployments",
    "variable_locks": "variables",
}
"""Further keys under which a table's changes can be waited for, and the table they belong to."""


def job_key(namespace: str, job_id: str) -> str:
    """The key of a job; a namespace holds no slash, a job id may."""
    return f"{namespace}/{job_id}"


def target(table: str, key: str) -> str:
    """What to pass to `Watch.wait` for one object instead of a whole table."""
    return f"{table}:{key}"


class Changes:
    """Keys by table, and the newest index at which each table changed."""

    def __init__(self) -> None:
        self.keys: dict[str, set[str]] = {}
        self.indexes: dict[str, int] = {}

    def note(self, index: int, table: str, keys: Iterable[str]) -> None:
        """Record that `keys` of `table` changed in the entry at `index`."""
        known = self.keys.get(table)
        if known is None:
            known = self.keys[table] = set()
        known.update(keys)
        self.indexes[table] = index

    def merge(self, other: Changes) -> None:
        """Take up what a later entry changed."""
        for table, keys in other.keys.items():
            self.keys.setdefault(table, set()).update(keys)
        self.indexes.update(other.indexes)

    def table_indexes(self) -> Mapping[str, int]:
        """Newest index per real table."""
        return {name: index for name, index in self.indexes.items() if name not in DERIVED}
