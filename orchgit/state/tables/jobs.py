"""Jobs: which version is the current one, and what lists and decisions query of it.

The struct of each version lies in `job_versions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import msgspec

from orchgit.model.job import Job
from orchgit.state.body_table import both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.entry import EntryContext
from orchgit.state.job_status import StatusInputs, fixed_status
from orchgit.state.tables.base import TableReads
from orchgit.state.tables.job_submissions import JobSubmissionWrites
from orchgit.state.tables.job_summaries import JobSummaryWrites
from orchgit.state.tables.job_versions import JOB_COLUMNS, JobVersionWrites, job_of
from orchgit.state.tables.periodic_launches import PeriodicLaunchWrites

_WITH_BODY = """jobs j JOIN job_versions v
    ON v.namespace = j.namespace AND v.id = j.id AND v.job_create_index = j.create_index
    AND v.version = j.version"""
_CURRENT = f"SELECT {JOB_COLUMNS} FROM {_WITH_BODY}"  # noqa: S608 (constant names)
_BY_ID = f"{_CURRENT} WHERE j.namespace = ? AND j.id = ?"
_OF_KEYS = f"""SELECT {JOB_COLUMNS} FROM json_each(?) k CROSS JOIN {_WITH_BODY}
    WHERE j.namespace = json_extract(k.value, '$[0]') AND j.id = json_extract(k.value, '$[1]')"""  # noqa: S608

# Many small rows are read as one JSON text: the interpreter's lock is taken once, not for each row,
# which another busy thread would make slow.
_decode_marks = msgspec.json.Decoder(list[tuple[str, str, int, int]]).decode
_decode_named_marks = msgspec.json.Decoder(list[tuple[str, str, int, str]]).decode


class LastChange(NamedTuple):
    """When a job, or the summary of its allocations, changed last."""

    namespace: str
    id: str
    at_index: int
    has_children: bool
    """Whether the summary counts children, which change without their parent."""


_decode_last_changes = msgspec.json.Decoder(list[LastChange]).decode
_LAST_CHANGE = """SELECT j.namespace, j.id, max(v.modify_index, coalesce(
        (SELECT max(s.modify_index) FROM job_summaries s
        WHERE s.namespace = j.namespace AND s.job_id = j.id), 0)) AS newest,
    iif(j.periodic + j.parameterized, 'true', 'false') AS has_children"""
_AS_JSON = "SELECT json_group_array(json_array(namespace, id, newest, json(has_children)))"
_LAST_CHANGES_OF_KEYS = f"""{_AS_JSON} FROM ({_LAST_CHANGE}
    FROM json_each(?) k CROSS JOIN {_WITH_BODY}
    WHERE j.namespace = json_extract(k.value, '$[0]')
    AND j.id = json_extract(k.value, '$[1]') ORDER BY k.key)"""


class JobPlace(NamedTuple):
    """Where a job stands among others."""

    modify_index: int
    namespace: str
    id: str
    parent_id: str


class JobReads(TableReads):
    def get(self, namespace: str, job_id: str) -> Job | None:
        """Returns the current version."""
        row = self._connection.execute(_BY_ID, (namespace, job_id)).fetchone()
        return job_of(row) if row else None

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Job]:
        """Returns (namespace, id) -> current version, for the jobs that are registered."""
        jobs = [job_of(row) for row in self._rows(_OF_KEYS, (msgspec.json.encode(tuple(keys)),))]
        return {(job.namespace, job.id): job for job in jobs}

    def all(self, namespace: str | None = None, prefix: str = "") -> list[Job]:
        where, values = both(
            conditions(**{"j.namespace": namespace}), starting_with("j.id", prefix)
        )
        sql = f"{_CURRENT} {'WHERE ' + where if where else ''} ORDER BY j.namespace, j.id"
        return [job_of(row) for row in self._rows(sql, values)]

    def keys(self, namespace: str | None = None, prefix: str = "") -> list[tuple[str, str]]:
        """Returns (namespace, id) in the order of `all`: enough to choose a page of them."""
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        sql = f"SELECT namespace, id FROM jobs WHERE {where or 'TRUE'} ORDER BY namespace, id"  # noqa: S608
        return cast(list[tuple[str, str]], self._rows(sql, values))

    def places(self, namespace: str | None = None) -> list[JobPlace]:
        """Returns the jobs' places in order of their changes: enough to choose a page of them."""
        where, values = conditions(namespace=namespace)
        sql = f"SELECT modify_index, namespace, id, parent_id FROM jobs WHERE {where or 'TRUE'}"  # noqa: S608
        rows = self._rows(f"{sql} ORDER BY modify_index, namespace, id", values)
        return [JobPlace(*row) for row in cast(list[tuple[int, str, str, str]], rows)]

    def last_changes(self, namespace: str | None = None, prefix: str = "") -> list[LastChange]:
        """Returns the last changes of the jobs in the order of `all`."""
        where, values = both(
            conditions(**{"j.namespace": namespace}), starting_with("j.id", prefix)
        )
        sql = f"""{_AS_JSON} FROM ({_LAST_CHANGE} FROM {_WITH_BODY}
            WHERE {where or "TRUE"} ORDER BY j.namespace, j.id)"""
        return _decode_last_changes(str(self._rows(sql, values)[0][0]))

    def last_changes_of(self, keys: Iterable[tuple[str, str]]) -> list[LastChange]:
        """Returns the last changes of the jobs (namespace, id) that are registered, in the order of
        `keys`."""
        rows = self._rows(_LAST_CHANGES_OF_KEYS, (msgspec.json.encode(tuple(keys)),))
        return _decode_last_changes(str(rows[0][0]))

    def of_type(self, *types: str) -> list[Job]:
        """Returns the jobs of any of these types that are not stopped."""
        marks = ", ".join("?" * len(types))
        sql = f"{_CURRENT} WHERE j.type IN ({marks}) AND j.stop = 0 ORDER BY j.namespace, j.id"
        return [job_of(row) for row in self._rows(sql, types)]

    def of_parent(self, namespace: str, parent_id: str) -> list[Job]:
        sql = f"{_CURRENT} WHERE j.namespace = ? AND j.parent_id = ? AND j.parent_id != ''"
        return [job_of(row) for row in self._rows(f"{sql} ORDER BY j.id", (namespace, parent_id))]

    def children_of(self, namespace: str, parent_id: str) -> list[tuple[str, str]]:
        """Returns (id, status) of the jobs that the parent launched; there may be many."""
        sql = """SELECT id, status FROM jobs
            WHERE namespace = ? AND parent_id = ? AND parent_id != '' ORDER BY id"""
        return cast(list[tuple[str, str]], self._rows(sql, (namespace, parent_id)))

    def of_source(self, source: str) -> list[Job]:
        """Returns the jobs of the source that are not stopped, in no order."""
        sql = f"{_CURRENT} WHERE j.source = ? AND j.source != '' AND j.stop = 0"
        return [job_of(row) for row in self._rows(sql, (source,))]

    def keys_of_source(self, source: str) -> list[tuple[str, str]]:
        """Returns (namespace, id) of the jobs of the source that are not stopped, in order."""
        return sorted(mark[:2] for mark in self._marks_of_source(source))

    def all_keys_of_source(self, source: str) -> list[tuple[str, str]]:
        """As `keys_of_source`, with the stopped ones."""
        sql = "SELECT namespace, id FROM jobs WHERE source = ? AND source != '' ORDER BY 1, 2"
        return cast(list[tuple[str, str]], self._rows(sql, (source,)))

    def modify_indexes_of_source(self, source: str) -> dict[tuple[str, str], int]:
        """Returns (namespace, id) -> JobModifyIndex of the jobs of the source that are not
        stopped."""
        return {(mark[0], mark[1]): mark[2] for mark in self._marks_of_source(source)}

    def versions_of_source(self, source: str) -> dict[tuple[str, str], int]:
        """Returns (namespace, id) -> version of the jobs of the source that are not stopped."""
        return {(mark[0], mark[1]): mark[3] for mark in self._marks_of_source(source)}

    def _marks_of_source(self, source: str) -> list[tuple[str, str, int, int]]:
        sql = """SELECT json_group_array(json_array(namespace, id, job_modify_index, version))
            FROM jobs WHERE source = ? AND source != '' AND stop = 0"""
        return _decode_marks(str(self._rows(sql, (source,))[0][0]))

    def marks(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
        """Returns (namespace, id) -> (JobModifyIndex, source) of the jobs that are registered."""
        sql = """SELECT json_group_array(json_array(j.namespace, j.id, j.job_modify_index,
            j.source)) FROM json_each(?) k CROSS JOIN jobs j
            WHERE j.namespace = json_extract(k.value, '$[0]')
            AND j.id = json_extract(k.value, '$[1]')"""
        rows = self._rows(sql, (msgspec.json.encode(tuple(keys)),))
        found = _decode_named_marks(str(rows[0][0]))
        return {(namespace, job_id): (index, source) for namespace, job_id, index, source in found}

    def periodic(self) -> list[Job]:
        """Returns the periodic parents that are not stopped."""
        sql = f"{_CURRENT} WHERE j.periodic = 1 AND j.stop = 0 ORDER BY j.namespace, j.id"
        return [job_of(row) for row in self._rows(sql)]

    def is_periodic(self, namespace: str, job_id: str) -> bool:
        """Whether the job exists and is periodic."""
        sql = "SELECT periodic FROM jobs WHERE namespace = ? AND id = ?"
        return bool(self._number(sql, (namespace, job_id)))

    def count_by_status(self) -> dict[str, int]:
        sql = "SELECT status, count(*) FROM jobs GROUP BY status"
        return dict(cast(list[tuple[str, int]], self._rows(sql, ())))

    def count_live_of_namespace(self, namespace: str) -> int:
        """Returns the number of jobs that are not dead."""
        sql = "SELECT count(*) FROM jobs WHERE namespace = ? AND status != 'dead'"
        return self._number(sql, (namespace,))

    def count_live_of_pool(self, pool: str) -> int:
        """Returns the number of jobs that are not dead."""
        sql = "SELECT count(*) FROM jobs WHERE node_pool = ? AND status != 'dead'"
        return self._number(sql, (pool,))


_INTO_JOBS = """INTO jobs (namespace, id, version, type, status, priority, parent_id, source,
    periodic, parameterized, stop, node_pool, create_index, modify_index, job_modify_index)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_NEW_JOB = f"INSERT {_INTO_JOBS} ON CONFLICT DO NOTHING"
_PUT_JOB = f"INSERT OR REPLACE {_INTO_JOBS}"


def _columns(job: Job) -> tuple[object, ...]:
    source = job.origin.source if job.origin else ""
    return (
        *(job.namespace, job.id, job.version, job.type, job.status, job.priority),
        *(job.parent_id, source, job.is_periodic, job.is_parameterized, job.stop),
        *(job.node_pool, job.create_index, job.modify_index, job.job_modify_index),
    )


class JobWrites(JobReads):
    """Writes a job with all that belongs to it: versions, submissions, summary, launches."""

    def __init__(
        self,
        entry: EntryContext,
        versions: JobVersionWrites,
        submissions: JobSubmissionWrites,
        summaries: JobSummaryWrites,
        launches: PeriodicLaunchWrites,
    ) -> None:
        super().__init__(entry.connection)
        self._entry = entry
        self._versions = versions
        self._submissions = submissions
        self._summaries = summaries
        self._launches = launches

    def put(self, job: Job) -> None:
        """Store a job as its current version; the caller sets indexes, version and status."""
        self._connection.execute(_PUT_JOB, _columns(job))
        self._stored(job)

    def insert(self, job: Job) -> bool:
        """As `put`; False, and nothing is stored, if there is a job of this id."""
        if self._connection.execute(_NEW_JOB, _columns(job)).rowcount != 1:
            return False
        self._stored(job)
        return True

    def _stored(self, job: Job) -> None:
        self._cache_status_inputs(job)
        self._entry.changed("jobs", [job_key(job.namespace, job.id)])
        self._versions.put(job)

    def _cache_status_inputs(self, job: Job) -> None:
        """Nothing of a job that this entry created can have been placed."""
        key = (job.namespace, job.id)
        cache = self._entry.cache.job_status_inputs
        cached = cache.get(key)
        if cached is None and job.create_index != self._entry.index:
            return
        fixed = fixed_status(job.type, job.is_periodic or job.is_parameterized, job.stop)
        cache.put(key, StatusInputs(job.status, fixed, cached.live if cached else 0))

    def set_status(self, namespace: str, job_id: str, status: str) -> None:
        self._versions.set_current_status(namespace, job_id, status)
        self._connection.execute(
            "UPDATE jobs SET status = ?, modify_index = ? WHERE namespace = ? AND id = ?",
            (status, self._entry.index, namespace, job_id),
        )
        self._entry.cache.job_status_inputs.pop((namespace, job_id), None)
        self._entry.changed("jobs", [job_key(namespace, job_id)])

    def drop_version(self, job: Job, version: int) -> None:
        """Drop one version of the job and the text that it was registered from."""
        self._versions.drop(job, version)
        self._submissions.delete(job.namespace, job.id, version)

    def delete(self, namespace: str, job_id: str) -> None:
        """Delete the job with all that belongs to it; versions that allocations refer to stay
        readable until those are gone."""
        self._connection.execute(
            "DELETE FROM jobs WHERE namespace = ? AND id = ?", (namespace, job_id)
        )
        for part in (self._submissions, self._summaries, self._launches):
            part.delete_of_job(namespace, job_id)
        self._entry.cache.job_status_inputs.pop((namespace, job_id), None)
        self._entry.changed("jobs", [job_key(namespace, job_id)])
        self._versions.drop_of_job(namespace, job_id)
