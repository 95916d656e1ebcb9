"""Jobs, their versions and submissions, and launches of periodic ones.

A job's struct lies once, in `job_versions`; `jobs` says which version is the current one and holds
what lists and decisions query. Bookkeeping that changes (status, stability) is in columns and laid
over the struct when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from orchgit.model.allocation import Allocation
from orchgit.model.base import Model
from orchgit.model.job import Job, JobOrigin, JobSubmission
from orchgit.state.body_table import both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.tables.base import Reads, Writes
from orchgit.state.tables.job_summaries import fixed_status
from orchgit.state.writer_cache import Standing

_JOB = msgspec.msgpack.Decoder(Job)
_encode = msgspec.msgpack.Encoder().encode
_SUBMISSION = msgspec.msgpack.Decoder(JobSubmission)

_COLUMNS = "v.status, v.status_description, v.stable, v.modify_index, v.body"
_WITH_BODY = """jobs j JOIN job_versions v
    ON v.namespace = j.namespace AND v.id = j.id AND v.job_create_index = j.create_index
    AND v.version = j.version"""
_CURRENT = f"SELECT {_COLUMNS} FROM {_WITH_BODY}"  # noqa: S608 (constant names)
_BY_ID = f"{_CURRENT} WHERE j.namespace = ? AND j.id = ?"
_OF_KEYS = f"""SELECT {_COLUMNS} FROM json_each(?) k CROSS JOIN {_WITH_BODY}
    WHERE j.namespace = json_extract(k.value, '$[0]') AND j.id = json_extract(k.value, '$[1]')"""  # noqa: S608
_VERSIONS = f"SELECT {_COLUMNS} FROM job_versions v"  # noqa: S608 (constant names)

_ORIGIN = """SELECT v.body,
    v.job_create_index = (SELECT create_index FROM jobs WHERE namespace = ?1 AND id = ?2),
    v.job_create_index
    FROM job_versions v WHERE v.namespace = ?1 AND v.id = ?2 AND v.version = ?3
    ORDER BY v.job_create_index DESC LIMIT 1"""


_OF_ALLOCATION = f"""{_VERSIONS} WHERE v.namespace = ?1 AND v.id = ?2
    AND v.version = ?3 AND v.job_create_index <= ?4 ORDER BY v.job_create_index DESC LIMIT 1"""
_NEAREST = f"""{_VERSIONS} WHERE v.namespace = ?1 AND v.id = ?2
    ORDER BY v.job_create_index > ?4, v.job_create_index DESC, abs(v.version - ?3) LIMIT 1"""


class _Glance(Model):
    """What is read of a job's body when only its origin is wanted."""

    origin: JobOrigin | None = None


_GLANCE = msgspec.msgpack.Decoder(_Glance)


def _job(row: Sequence[object]) -> Job:
    status, description, stable, modify_index, body = row
    job = _JOB.decode(cast(bytes, body))
    job.status, job.status_description = cast(str, status), cast(str, description)
    job.stable, job.modify_index = bool(stable), cast(int, modify_index)
    return job


class JobReads(Reads):
    def job(self, namespace: str, job_id: str) -> Job | None:
        """The current version."""
        row = self.connection.execute(_BY_ID, (namespace, job_id)).fetchone()
        return _job(row) if row else None

    def jobs_by_keys(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Job]:
        """The current versions of those (namespace, id) that are registered."""
        jobs = [_job(row) for row in self._rows(_OF_KEYS, (msgspec.json.encode(tuple(keys)),))]
        return {(job.namespace, job.id): job for job in jobs}

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None:
        """A version that is kept, or that an allocation still refers to."""
        sql = f"""{_VERSIONS} WHERE v.namespace = ? AND v.id = ? AND v.version = ?
            ORDER BY v.job_create_index DESC LIMIT 1"""
        row = self.connection.execute(sql, (namespace, job_id, version)).fetchone()
        return _job(row) if row else None

    def job_of_allocation(self, held: Allocation) -> Job | None:
        """The job version that the allocation runs. A job that was purged and registered again
        counts its versions from 0 again: the version is that of the registration which the
        allocation was placed for. None only for data of servers that lost versions."""
        key = (held.namespace, held.job_id, held.job_version, held.create_index)
        row = self.connection.execute(_OF_ALLOCATION, key).fetchone()
        return _job(row) if row else None

    def nearest_job_of_allocation(self, held: Allocation) -> Job | None:
        """The same, or the stored version that comes nearest to it."""
        key = (held.namespace, held.job_id, held.job_version, held.create_index)
        row = self.connection.execute(_NEAREST, key).fetchone()
        return _job(row) if row else None

    def stored_versions(self, namespace: str, job_id: str) -> list[tuple[int, int]]:
        """(create index of the registration, version) of all that are stored, dropped ones too."""
        sql = "SELECT job_create_index, version FROM job_versions WHERE namespace = ? AND id = ?"
        return cast(list[tuple[int, int]], self._rows(sql, (namespace, job_id)))

    def version_origin(
        self, namespace: str, job_id: str, version: int
    ) -> tuple[JobOrigin | None, int]:
        """(where that version came from, None if it is gone; the create index of the registered
        job that it is a version of, 0 if that job was purged). Reads little of it: every plan
        asks."""
        row = self.connection.execute(_ORIGIN, (namespace, job_id, version)).fetchone()
        if row is None:
            return None, 0
        body, is_registered, create_index = row
        return _GLANCE.decode(body).origin or JobOrigin(), create_index if is_registered else 0

    def job_versions(self, namespace: str, job_id: str) -> list[Job]:
        """The kept versions of a registered job, newest first."""
        sql = f"""{_VERSIONS} JOIN jobs j ON j.namespace = v.namespace AND j.id = v.id
            AND j.create_index = v.job_create_index
            WHERE v.namespace = ? AND v.id = ? AND v.retired = 0 ORDER BY v.version DESC"""
        return [_job(row) for row in self._rows(sql, (namespace, job_id))]

    def jobs(self, namespace: str | None = None, prefix: str = "") -> list[Job]:
        where, values = both(
            conditions(**{"j.namespace": namespace}), starting_with("j.id", prefix)
        )
        sql = f"{_CURRENT} {'WHERE ' + where if where else ''} ORDER BY j.namespace, j.id"
        return [_job(row) for row in self._rows(sql, values)]

    def job_keys(self, namespace: str | None = None, prefix: str = "") -> list[tuple[str, str]]:
        """(namespace, id) in the order of `jobs`: enough to choose a page of them."""
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        sql = f"SELECT namespace, id FROM jobs WHERE {where or 'TRUE'} ORDER BY namespace, id"  # noqa: S608
        return cast(list[tuple[str, str]], self._rows(sql, values))

    def jobs_of_types(self, *types: str) -> list[Job]:
        """Those that are not stopped."""
        marks = ", ".join("?" * len(types))
        sql = f"{_CURRENT} WHERE j.type IN ({marks}) AND j.stop = 0 ORDER BY j.namespace, j.id"
        return [_job(row) for row in self._rows(sql, types)]

    def jobs_by_parent(self, namespace: str, parent_id: str) -> list[Job]:
        sql = f"{_CURRENT} WHERE j.namespace = ? AND j.parent_id = ? AND j.parent_id != ''"
        return [_job(row) for row in self._rows(f"{sql} ORDER BY j.id", (namespace, parent_id))]

    def jobs_by_source(self, source: str) -> list[tuple[str, str]]:
        """(namespace, id) of each job that is not stopped and came from this source."""
        sql = """SELECT namespace, id FROM jobs WHERE source = ? AND source != '' AND stop = 0
            ORDER BY namespace, id"""
        return cast(list[tuple[str, str]], self._rows(sql, (source,)))

    def current_jobs_by_source(self, source: str) -> list[Job]:
        """The same jobs whole, in no order."""
        sql = f"{_CURRENT} WHERE j.source = ? AND j.source != '' AND j.stop = 0"
        return [_job(row) for row in self._rows(sql, (source,))]

    def job_modify_indexes_by_source(self, source: str) -> dict[tuple[str, str], int]:
        """The same jobs with their JobModifyIndex: tells at one look which of them changed."""
        sql = """SELECT namespace, id, job_modify_index FROM jobs
            WHERE source = ? AND source != '' AND stop = 0"""
        rows = cast(list[tuple[str, str, int]], self._rows(sql, (source,)))
        return {(namespace, job_id): index for namespace, job_id, index in rows}

    def periodic_jobs(self) -> list[Job]:
        """Periodic parents that are not stopped."""
        sql = f"{_CURRENT} WHERE j.periodic = 1 AND j.stop = 0 ORDER BY j.namespace, j.id"
        return [_job(row) for row in self._rows(sql)]

    def is_periodic(self, namespace: str, job_id: str) -> bool:
        """Whether there is such a job, and it is launched again and again."""
        sql = "SELECT periodic FROM jobs WHERE namespace = ? AND id = ?"
        return bool(self._number(sql, (namespace, job_id)))

    def job_submission(self, namespace: str, job_id: str, version: int) -> JobSubmission | None:
        sql = """SELECT body FROM job_submissions
            WHERE namespace = ? AND job_id = ? AND version = ?"""
        row = self.connection.execute(sql, (namespace, job_id, version)).fetchone()
        return _SUBMISSION.decode(row[0]) if row else None

    def periodic_launch(self, namespace: str, job_id: str) -> int | None:
        """When the job was last launched, in Unix nanoseconds."""
        sql = "SELECT launch_time_ns FROM periodic_launches WHERE namespace = ? AND job_id = ?"
        row = self.connection.execute(sql, (namespace, job_id)).fetchone()
        return cast(int, row[0]) if row else None

    def live_jobs_in_namespace(self, namespace: str) -> int:
        """How many are not dead."""
        sql = "SELECT count(*) FROM jobs WHERE namespace = ? AND status != 'dead'"
        return self._number(sql, (namespace,))

    def live_jobs_in_pool(self, pool: str) -> int:
        """How many are not dead."""
        sql = "SELECT count(*) FROM jobs WHERE node_pool = ? AND status != 'dead'"
        return self._number(sql, (pool,))


_INTO_JOBS = """INTO jobs (namespace, id, version, type, status, priority, parent_id, source,
    periodic, parameterized, stop, node_pool, create_index, modify_index, job_modify_index)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_NEW_JOB = f"INSERT {_INTO_JOBS} ON CONFLICT DO NOTHING"
_PUT_JOB = f"INSERT OR REPLACE {_INTO_JOBS}"
_PUT_VERSION = """INSERT INTO job_versions (namespace, id, job_create_index, version, retired,
    stable, tagged, status, status_description, modify_index, body)
    VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, id, job_create_index, version) DO UPDATE SET retired = 0,
    stable = excluded.stable, tagged = excluded.tagged, status = excluded.status,
    status_description = excluded.status_description, modify_index = excluded.modify_index,
    body = excluded.body"""


def _columns(job: Job) -> tuple[object, ...]:
    source = job.origin.source if job.origin else ""
    return (
        *(job.namespace, job.id, job.version, job.type, job.status, job.priority),
        *(job.parent_id, source, job.is_periodic, job.is_parameterized, job.stop),
        *(job.node_pool, job.create_index, job.modify_index, job.job_modify_index),
    )


class JobWrites(JobReads, Writes):
    def put_job(self, job: Job) -> None:
        """Store a job as its current version; its indexes, version and status are the caller's."""
        self.connection.execute(_PUT_JOB, _columns(job))
        self._put_version(job)

    def put_new_job(self, job: Job) -> bool:
        """The same; False, and nothing is stored, if there is a job of this name."""
        if self.connection.execute(_NEW_JOB, _columns(job)).rowcount != 1:
            return False
        self._put_version(job)
        return True

    def _put_version(self, job: Job) -> None:
        self.connection.execute(
            _PUT_VERSION,
            (
                *(job.namespace, job.id, job.create_index, job.version, job.stable),
                *(job.version_tag is not None, job.status, job.status_description),
                *(job.modify_index, _encode(job)),
            ),
        )
        self._remember_standing(job)
        self._job_changed(job.namespace, job.id)
        self._changed("job_versions", [job_key(job.namespace, job.id)])

    def _remember_standing(self, job: Job) -> None:
        """Nothing of a job that this entry made can have been placed."""
        key = (job.namespace, job.id)
        known = self.remembered.standings.get(key)
        if known is None and job.create_index != self.index:
            return
        fixed = fixed_status(job.type, job.is_periodic or job.is_parameterized, job.stop)
        standing = Standing(job.status, fixed, known.live if known else 0)
        self.remembered.standings.keep(key, standing)

    def _forget_standing(self, namespace: str, job_id: str) -> None:
        self.remembered.standings.pop((namespace, job_id), None)

    def set_job_status(self, namespace: str, job_id: str, status: str) -> None:
        values = (status, self.index, namespace, job_id)
        self.connection.execute(
            """UPDATE job_versions SET status = ?, status_description = '', modify_index = ?
            WHERE namespace = ? AND id = ? AND (job_create_index, version) =
            (SELECT create_index, version FROM jobs WHERE namespace = ? AND id = ?)""",
            (*values, namespace, job_id),
        )
        self.connection.execute(
            "UPDATE jobs SET status = ?, modify_index = ? WHERE namespace = ? AND id = ?", values
        )
        self._forget_standing(namespace, job_id)
        self._job_changed(namespace, job_id)

    def set_job_stability(self, job: Job, stable: bool) -> None:
        """Of one version."""
        self.connection.execute(
            """UPDATE job_versions SET stable = ?, modify_index = ?
            WHERE namespace = ? AND id = ? AND job_create_index = ? AND version = ?""",
            (stable, self.index, job.namespace, job.id, job.create_index, job.version),
        )
        self._job_changed(job.namespace, job.id)
        self._changed("job_versions", [job_key(job.namespace, job.id)])

    def drop_job_version(self, job: Job, version: int) -> None:
        """Forget a version; one that allocations refer to is only hidden until they are gone."""
        self._retire(job.namespace, job.id, "job_create_index = ? AND version = ?",
                     (job.create_index, version))  # fmt: skip
        self.connection.execute(
            "DELETE FROM job_submissions WHERE namespace = ? AND job_id = ? AND version = ?",
            (job.namespace, job.id, version),
        )
        self._changed("job_versions", [job_key(job.namespace, job.id)])

    def _retire(self, namespace: str, job_id: str, which: str, values: tuple[int, ...]) -> None:
        key = (namespace, job_id, *values)
        self.connection.execute(
            f"UPDATE job_versions SET retired = 1 WHERE namespace = ? AND id = ? AND {which}",  # noqa: S608
            key,
        )
        self.sweep_job_versions(namespace, job_id)

    def sweep_job_versions(self, namespace: str, job_id: str) -> None:
        """Delete dropped versions that no allocation refers to any more."""
        self.connection.execute(
            """DELETE FROM job_versions WHERE namespace = ?1 AND id = ?2 AND retired = 1
            AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.namespace = ?1 AND a.job_id = ?2
                            AND a.job_version = job_versions.version)""",
            (namespace, job_id),
        )

    def delete_job(self, namespace: str, job_id: str) -> None:
        """All of it; versions that allocations refer to stay readable until those are gone."""
        key = (namespace, job_id)
        self.connection.execute("DELETE FROM jobs WHERE namespace = ? AND id = ?", key)
        for table in ("job_submissions", "job_summaries", "periodic_launches"):
            self.connection.execute(
                f"DELETE FROM {table} WHERE namespace = ? AND job_id = ?",  # noqa: S608
                key,
            )
        self._forget_standing(namespace, job_id)
        self._retire(namespace, job_id, "retired = 0", ())
        self._job_changed(namespace, job_id)
        self._changed("job_versions", [job_key(namespace, job_id)])

    def put_job_submission(self, submission: JobSubmission) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO job_submissions VALUES (?, ?, ?, ?)",
            (
                *(submission.namespace, submission.job_id, submission.version),
                msgspec.msgpack.encode(submission),
            ),
        )

    def put_periodic_launch(self, namespace: str, job_id: str, launch_time_ns: int) -> None:
        self.connection.execute(
            """INSERT INTO periodic_launches VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
            launch_time_ns = excluded.launch_time_ns, modify_index = excluded.modify_index""",
            (namespace, job_id, launch_time_ns, self.index, self.index),
        )
        self._changed("periodic_launches", [job_key(namespace, job_id)])

    def _job_changed(self, namespace: str, job_id: str) -> None:
        self._changed("jobs", [job_key(namespace, job_id)])
