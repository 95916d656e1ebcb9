"""Counts of a job's allocations by group, kept as allocations change, and the status they imply."""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from orchgit.model.allocation import ClientStatus
from orchgit.model.job import ChildrenSummary, GroupSummary, JobStatus, JobSummary, JobType
from orchgit.state.tables.base import Reads, Writes
from orchgit.state.writer_cache import Standing

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

# One statement for a job that is not remembered: whether evaluations wait is asked only of one
# without live allocations.
_WAITS = """SELECT EXISTS (SELECT 1 FROM evaluations WHERE namespace = ? AND job_id = ?
    AND status IN ('pending', 'blocked'))"""
_WORK = """SELECT status, type, stop, parent, live, CASE WHEN live THEN 0 ELSE EXISTS (
        SELECT 1 FROM evaluations WHERE namespace = ?1 AND job_id = ?2
        AND status IN ('pending', 'blocked')) END
    FROM (SELECT status, type, stop, periodic OR parameterized AS parent, coalesce((
        SELECT sum(live) FROM job_summaries WHERE namespace = ?1 AND job_id = ?2), 0) AS live
        FROM jobs WHERE namespace = ?1 AND id = ?2)"""

_NEW_SUMMARY = """INSERT OR IGNORE INTO job_summaries (namespace, job_id, task_group,
    create_index, modify_index) VALUES (?, ?, ?, ?, ?)"""
_SET_QUEUED = """UPDATE job_summaries SET queued = ?1, modify_index = ?2
    WHERE namespace = ?3 AND job_id = ?4 AND task_group = ?5 AND queued != ?1"""


class SummaryReads(Reads):
    def job_summary(self, namespace: str, job_id: str) -> JobSummary | None:
        """None for a job that is not registered."""
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
        sql = "SELECT periodic + parameterized FROM jobs WHERE namespace = ? AND id = ?"
        if not self._number(sql, (namespace, job_id)):
            return None
        sql = """SELECT status, count(*) FROM jobs
            WHERE namespace = ? AND parent_id = ? AND parent_id != '' GROUP BY status"""
        counts = dict(cast(list[tuple[str, int]], self._rows(sql, (namespace, job_id))))
        return ChildrenSummary(**counts)

    def live_count(self, namespace: str, job_id: str) -> int:
        """How many of the job's allocations neither side calls over."""
        sql = "SELECT sum(live) FROM job_summaries WHERE namespace = ? AND job_id = ?"
        return self._number(sql, (namespace, job_id))

    def job_statuses(
        self, namespace: str, job_id: str, purged_evals: bool
    ) -> tuple[str, str] | None:
        """(the job's status, what its allocations and evaluations imply); None for one that is not
        registered.

        `purged_evals`: evaluations were garbage collected, so that none left means dead.
        """
        standing, waits = self._standing(namespace, job_id)
        if standing is None:
            return None
        return standing.status, self._implied(namespace, job_id, standing, waits, purged_evals)

    def _standing(self, namespace: str, job_id: str) -> tuple[Standing | None, bool]:
        """(None for one that is not registered, whether evaluations wait as far as that counts)."""
        row = self.connection.execute(_WORK, (namespace, job_id)).fetchone()
        if row is None:
            return None, False
        status, job_type, stop, parent, live, waits = row
        return Standing(status, fixed_status(job_type, parent, stop), live), bool(waits)

    def _implied(
        self, namespace: str, job_id: str, standing: Standing, waits: bool, purged_evals: bool
    ) -> str:
        if standing.fixed:
            return standing.fixed
        if standing.live:
            return JobStatus.RUNNING
        if waits:
            return JobStatus.PENDING
        return self._status_without_work(namespace, job_id, purged_evals)

    def _status_without_work(self, namespace: str, job_id: str, purged_evals: bool) -> str:
        key = (namespace, job_id)
        past = """SELECT EXISTS (SELECT 1 FROM evaluations WHERE namespace = ?1 AND job_id = ?2)
            OR EXISTS (SELECT 1 FROM allocations WHERE namespace = ?1 AND job_id = ?2)"""
        if purged_evals or self._number(past, key):
            return JobStatus.DEAD
        return JobStatus.PENDING


def fixed_status(job_type: str, is_parent: bool, stop: bool) -> str:
    """Of a job whose status does not depend on its work; empty for others."""
    if job_type == JobType.SYSTEM or is_parent:
        return JobStatus.DEAD if stop else JobStatus.RUNNING
    return ""


GroupKey = tuple[str, str, str]


class SummaryWrites(SummaryReads, Writes):
    """Changes are gathered while an entry is applied and written once, by `flush_summaries`."""

    counted: defaultdict[GroupKey, defaultdict[str, int]]
    queued: dict[GroupKey, int]

    def settled_statuses(
        self, namespace: str, job_id: str, waits: bool, purged_evals: bool
    ) -> tuple[str, str] | None:
        """As `job_statuses`, without asking for what is remembered. `waits`: an evaluation of the
        job is known to wait."""
        standing = self.remembered.standings.get((namespace, job_id))
        if standing is None:
            standing, waits = self._standing(namespace, job_id)
            if standing is None:
                return None
            self.remembered.standings.keep((namespace, job_id), standing)
        elif not (waits or standing.fixed or standing.live):
            waits = bool(self._number(_WAITS, (namespace, job_id)))
        return standing.status, self._implied(namespace, job_id, standing, waits, purged_evals)

    def count_alloc(self, key: GroupKey, status: str, live: bool, by: int) -> None:
        """`by` more allocations of (namespace, job, group) have this client status."""
        counts = self.counted[key]
        counts[COUNTED[ClientStatus(status)]] += by
        counts["live"] += by * live

    def uncount_live(self, key: GroupKey, by: int) -> None:
        """Allocations were deleted; what became of them stays counted."""
        self.counted[key]["live"] -= by

    def put_summary(self, namespace: str, job_id: str, groups: list[str]) -> None:
        """Make sure that each group has a row, with zeros if it is new."""
        for group in groups:
            values = (namespace, job_id, group, self.index, self.index)
            self.connection.execute(_NEW_SUMMARY, values)

    def set_queued(self, namespace: str, job_id: str, queued: dict[str, int]) -> None:
        for group, count in queued.items():
            self.queued[namespace, job_id, group] = count

    def flush_summaries(self) -> None:
        for key, counts in self.counted.items():
            changed = {column: by for column, by in counts.items() if by}
            if changed:
                self._add_counts(key, changed)
        self.counted.clear()
        if self.queued:
            rows = [(count, self.index, *key) for key, count in self.queued.items()]
            self.connection.executemany(_SET_QUEUED, rows)
            self.queued.clear()

    def _add_counts(self, key: GroupKey, changed: dict[str, int]) -> None:
        """With the queued ones of the same group, if they are known anew."""
        self.remembered.standings.pop(key[:2], None)
        sets = "".join(f"{column} = max(0, {column} + ?), " for column in changed)
        values = [*changed.values()]
        if (queued := self.queued.pop(key, None)) is not None:
            sets += "queued = ?, "
            values.append(queued)
        self.connection.execute(
            f"UPDATE job_summaries SET {sets} modify_index = ? "  # noqa: S608
            "WHERE namespace = ? AND job_id = ? AND task_group = ?",
            (*values, self.index, *key),
        )
