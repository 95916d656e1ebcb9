"""Held versions of jobs, by job."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.held_version import HeldVersion
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

HELD_VERSIONS = BodyTable(
    "held_versions",
    HeldVersion,
    "id namespace job_id source wanted create_index modify_index",
)


class HeldVersionReads(TableReads):
    def get(self, namespace: str, job_id: str) -> HeldVersion | None:
        return HELD_VERSIONS.get(self._connection, f"{namespace}/{job_id}")

    def of_source(self, source: str) -> list[HeldVersion]:
        """Returns what the source's applied commit has and the source keeps from the cluster."""
        return HELD_VERSIONS.find(self._connection, "source = ? AND wanted", (source,))

    def known_of_source(self, source: str) -> list[HeldVersion]:
        """Returns the held versions of the source, also those that git does not have now. An empty
        `source` stands for those of removed sources."""
        return HELD_VERSIONS.find(self._connection, "source = ?", (source,))

    def all(self) -> list[HeldVersion]:
        """Returns what all sources keep from the cluster now."""
        return HELD_VERSIONS.find(self._connection, "source != '' AND wanted", ())


class HeldVersionWrites(HeldVersionReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, held: Sequence[HeldVersion]) -> None:
        HELD_VERSIONS.put(self._connection, held)
        self._entry.changed("held_versions", [each.id for each in held])

    def delete_all(self, keys: Sequence[tuple[str, str]]) -> None:
        """`keys` are (namespace, job id)."""
        ids = [f"{namespace}/{job_id}" for namespace, job_id in keys]
        HELD_VERSIONS.delete(self._connection, ids)
        self._entry.changed("held_versions", ids)
