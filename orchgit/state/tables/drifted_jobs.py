"""Jobs that differ from what the applied commits of their sources want."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchgit.model.drift import JobDrift
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.changes import job_key
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

DRIFTED_JOBS = BodyTable(
    "drifted_jobs", JobDrift, "id namespace job_id source create_index modify_index"
)


class DriftedJobReads(TableReads):
    def get(self, namespace: str, job_id: str) -> JobDrift | None:
        return DRIFTED_JOBS.get(self._connection, job_key(namespace, job_id))

    def all(self, source: str | None = None, namespace: str | None = None) -> list[JobDrift]:
        """Returns them by namespace and job id."""
        where, values = conditions(source=source, namespace=namespace)
        return DRIFTED_JOBS.find(self._connection, where, values, "namespace, job_id")

    def counts(self) -> dict[str, int]:
        """Returns how many jobs of each source have drifted; a source without any is left out."""
        rows = self._rows("SELECT source, count(*) FROM drifted_jobs GROUP BY source")
        return {str(source): int(str(count)) for source, count in rows}


class DriftedJobWrites(DriftedJobReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, drifts: Sequence[JobDrift]) -> None:
        DRIFTED_JOBS.put(self._connection, drifts)
        self._entry.changed("drifted_jobs", [drift.id for drift in drifts])

    def delete_all(self, keys: Iterable[tuple[str, str]]) -> None:
        """`keys` are (namespace, job id)."""
        ids = [job_key(namespace, job_id) for namespace, job_id in keys]
        DRIFTED_JOBS.delete(self._connection, ids)
        self._entry.changed("drifted_jobs", ids)
