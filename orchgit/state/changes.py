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
"""Names of targets that select changes of a table by another key -> that table."""


def job_key(namespace: str, job_id: str) -> str:
    """Returns the key of a job: a namespace has no slash, a job id may have one."""
    return f"{namespace}/{job_id}"


def target(table: str, key: str) -> str:
    """Returns the target of `Watch.wait` for one object instead of a whole table."""
    return f"{table}:{key}"


class Changes:
    """The keys that changed, by table, and the newest index at which each table changed."""

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
        """Add the changes of later entries."""
        for table, keys in other.keys.items():
            self.keys.setdefault(table, set()).update(keys)
        self.indexes.update(other.indexes)

    def table_indexes(self) -> Mapping[str, int]:
        """Returns the newest index of each table."""
        return {name: index for name, index in self.indexes.items() if name not in DERIVED}
