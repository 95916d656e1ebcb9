"""Jobs that run once, as their sources last applied them."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.source import AppliedJob
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

APPLIED_JOBS = BodyTable(
    "applied_jobs",
    AppliedJob,
    "id namespace job_id source content_id spec_id create_index modify_index",
)


class AppliedJobReads(TableReads):
    def get(self, namespace: str, job_id: str) -> AppliedJob | None:
        return APPLIED_JOBS.get(self._connection, f"{namespace}/{job_id}")

    def of_source(self, source: str) -> list[AppliedJob]:
        """An empty `source` stands for those of removed sources."""
        return APPLIED_JOBS.find(self._connection, "source = ?", (source,))


class AppliedJobWrites(AppliedJobReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, jobs: Sequence[AppliedJob]) -> None:
        APPLIED_JOBS.put(self._connection, jobs)
        self._entry.changed("applied_jobs", [job.id for job in jobs])

    def delete_all(self, keys: Sequence[tuple[str, str]]) -> None:
        """`keys` are (namespace, job id)."""
        ids = [f"{namespace}/{job_id}" for namespace, job_id in keys]
        APPLIED_JOBS.delete(self._connection, ids)
        self._entry.changed("applied_jobs", ids)
