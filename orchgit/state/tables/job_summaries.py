"""Counts of a job's allocations by group and client status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from orchgit.model.allocation import ClientStatus
from orchgit.model.job import ChildrenSummary, GroupSummary, JobSummary
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

COUNTED = {
    ClientStatus.PENDING: "starting",
    ClientStatus.RUNNING: "running",
    ClientStatus.COMPLETE: "complete",
    ClientStatus.FAILED: "failed",
    ClientStatus.LOST: "lost",
    ClientStatus.UNKNOWN: "unknown",
}
"""Client status -> column that counts it."""

_COUNTS = ("queued", "complete", "failed", "running", "starting", "lost", "unknown")

_NEW_GROUP = """INSERT OR IGNORE INTO job_summaries (namespace, job_id, task_group,
    create_index, modify_index) VALUES (?, ?, ?, ?, ?)"""
_SET_QUEUED = """UPDATE job_summaries SET queued = ?1, modify_index = ?2
    WHERE namespace = ?3 AND job_id = ?4 AND task_group = ?5 AND queued != ?1"""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The counts of one group's allocations; `parent_id` is "" for a job that is nobody's child."""

    namespace: str
    job_id: str
    task_group: str
    parent_id: str
    counts: dict[str, int]


class JobSummaryReads(TableReads):
    def get(self, namespace: str, job_id: str) -> JobSummary | None:
        """Returns None for a job that is not registered."""
        sql = """SELECT task_group, queued, complete, failed, running, starting, lost, unknown,
            create_index, modify_index FROM job_summaries
            WHERE namespace = ? AND job_id = ? ORDER BY task_group"""
        rows = self._rows(sql, (namespace, job_id))
        if not rows:
            return None
        groups = {
            cast(str, name): GroupSummary(**dict(zip(_COUNTS, counts, strict=True)))  # type: ignore[arg-type]
            for name, *counts, _, _ in rows
        }
        return JobSummary(
            job_id=job_id,
            namespace=namespace,
            summary=groups,
            children=self._children(namespace, job_id),
            create_index=min(cast(int, row[-2]) for row in rows),
            modify_index=max(cast(int, row[-1]) for row in rows),
        )

    def _children(self, namespace: str, job_id: str) -> ChildrenSummary | None:
        """Returns None for a job that is neither periodic nor parameterized."""
        sql = "SELECT periodic + parameterized FROM jobs WHERE namespace = ? AND id = ?"
        if not self._number(sql, (namespace, job_id)):
            return None
        sql = """SELECT status, count(*) FROM jobs
            WHERE namespace = ? AND parent_id = ? AND parent_id != '' GROUP BY status"""
        counts = dict(cast(list[tuple[str, int]], self._rows(sql, (namespace, job_id))))
        return ChildrenSummary(**counts)

    def all(self) -> Iterator[GroupCounts]:
        """Yields the counts of every group of every job, without decoding the jobs."""
        sql = """SELECT s.namespace, s.job_id, s.task_group, coalesce(j.parent_id, ''), s.queued,
            s.complete, s.failed, s.running, s.starting, s.lost, s.unknown FROM job_summaries s
            LEFT JOIN jobs j ON j.namespace = s.namespace AND j.id = s.job_id"""
        for namespace, job_id, group, parent, *counts in self._rows(sql, ()):
            yield GroupCounts(
                cast(str, namespace),
                cast(str, job_id),
                cast(str, group),
                cast(str, parent),
                dict(zip(_COUNTS, cast(list[int], counts), strict=True)),
            )

    def count_live(self, namespace: str, job_id: str) -> int:
        """Returns the number of the job's allocations that are not terminal."""
        sql = "SELECT sum(live) FROM job_summaries WHERE namespace = ? AND job_id = ?"
        return self._number(sql, (namespace, job_id))


GroupKey = tuple[str, str, str]
"""(namespace, job id, group)."""


class JobSummaryWrites(JobSummaryReads):
    """Collects changes while an entry is applied; `flush` writes each row once."""

    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry
        self._changes: defaultdict[GroupKey, defaultdict[str, int]]
        self._changes = defaultdict(lambda: defaultdict(int))
        self._queued: dict[GroupKey, int] = {}

    def begin_entry(self) -> None:
        self._changes.clear()
        self._queued.clear()

    def add_groups(self, namespace: str, job_id: str, groups: list[str]) -> None:
        """Make sure that each group has a row, with zeros if it is new."""
        index = self._entry.index
        for group in groups:
            self._connection.execute(_NEW_GROUP, (namespace, job_id, group, index, index))

    def count(self, key: GroupKey, status: str, live: bool, by: int) -> None:
        """Count `by` more allocations of this client status in the group."""
        counts = self._changes[key]
        counts[COUNTED[ClientStatus(status)]] += by
        counts["live"] += by * live

    def uncount_deleted(self, key: GroupKey) -> None:
        """A live allocation was deleted; its client status stays counted."""
        self._changes[key]["live"] -= 1

    def set_queued(self, namespace: str, job_id: str, queued: dict[str, int]) -> None:
        """`queued`: group -> number of its allocations that could not be placed."""
        for group, count in queued.items():
            self._queued[namespace, job_id, group] = count

    def changed_jobs(self) -> list[tuple[str, str]]:
        """Returns (namespace, job id) of the jobs whose counts `flush` will write."""
        return [(namespace, job_id) for namespace, job_id, _ in self._changes]

    def flush(self) -> None:
        for key, counts in self._changes.items():
            changed = {column: by for column, by in counts.items() if by}
            if changed:
                self._add(key, changed)
        self._changes.clear()
        if self._queued:
            rows = [(count, self._entry.index, *key) for key, count in self._queued.items()]
            self._connection.executemany(_SET_QUEUED, rows)
            self._queued.clear()

    def _add(self, key: GroupKey, changed: dict[str, int]) -> None:
        """Add to the counts of one row; its new queued count goes into the same statement."""
        self._entry.cache.job_status_inputs.pop(key[:2], None)
        sets = "".join(f"{column} = max(0, {column} + ?), " for column in changed)
        values = [*changed.values()]
        if (queued := self._queued.pop(key, None)) is not None:
            sets += "queued = ?, "
            values.append(queued)
        self._connection.execute(
            f"UPDATE job_summaries SET {sets} modify_index = ? "  # noqa: S608
            "WHERE namespace = ? AND job_id = ? AND task_group = ?",
            (*values, self._entry.index, *key),
        )

    def delete_of_job(self, namespace: str, job_id: str) -> None:
        sql = "DELETE FROM job_summaries WHERE namespace = ? AND job_id = ?"
        self._connection.execute(sql, (namespace, job_id))
