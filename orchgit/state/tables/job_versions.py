"""The versions of jobs: each struct lies here once.

Bookkeeping that changes (status, stability) is in columns and laid over the struct when it is read.
A version that is dropped, or whose job was purged, stays stored while an allocation refers to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from orchgit.model.allocation import Allocation
from orchgit.model.base import Model
from orchgit.model.job import Job, JobOrigin
from orchgit.state.changes import job_key
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

_JOB = msgspec.msgpack.Decoder(Job)
_encode = msgspec.msgpack.Encoder().encode

JOB_COLUMNS = "v.status, v.status_description, v.stable, v.modify_index, v.body"
"""Of `job_versions v`: what `job_of` takes."""
_VERSIONS = f"SELECT {JOB_COLUMNS} FROM job_versions v"  # noqa: S608 (constant names)
_ORIGIN = """SELECT v.body,
    v.job_create_index = (SELECT create_index FROM jobs WHERE namespace = ?1 AND id = ?2),
    v.job_create_index
    FROM job_versions v WHERE v.namespace = ?1 AND v.id = ?2 AND v.version = ?3
    ORDER BY v.job_create_index DESC LIMIT 1"""


_OF_ALLOCATION = f"""{_VERSIONS} WHERE v.namespace = ?1 AND v.id = ?2
    AND v.version = ?3 AND v.job_create_index <= ?4 ORDER BY v.job_create_index DESC LIMIT 1"""
_NEAREST = f"""{_VERSIONS} WHERE v.namespace = ?1 AND v.id = ?2
    ORDER BY v.job_create_index > ?4, v.job_create_index DESC, abs(v.version - ?3) LIMIT 1"""


class _OnlyOrigin(Model):
    """The part of a job's body that `origin` reads."""

    origin: JobOrigin | None = None


_ONLY_ORIGIN = msgspec.msgpack.Decoder(_OnlyOrigin)


class _OnlyService(Model):
    """The parts of a job's body that `running_with_services` reads."""

    name: str = ""
    provider: str = "consul"


class _OnlyTask(Model):
    services: list[_OnlyService] | None = None


class _OnlyGroup(_OnlyTask):
    tasks: list[_OnlyTask] = []


class _OnlyServices(Model):
    task_groups: list[_OnlyGroup] = []


_ONLY_SERVICES = msgspec.msgpack.Decoder(_OnlyServices)
_RUNNING = """SELECT v.namespace, v.id, v.version, v.body FROM job_versions v
    WHERE (?1 IS NULL OR v.namespace = ?1) AND EXISTS (SELECT 1 FROM allocations a
    WHERE a.namespace = v.namespace AND a.job_id = v.id AND a.job_version = v.version
    AND a.client_status = 'running' AND a.desired_status = 'run')"""


def job_of(row: Sequence[object]) -> Job:
    """Returns the job of a row of JOB_COLUMNS."""
    status, description, stable, modify_index, body = row
    job = _JOB.decode(cast(bytes, body))
    job.status, job.status_description = cast(str, status), cast(str, description)
    job.stable, job.modify_index = bool(stable), cast(int, modify_index)
    return job


class JobVersionReads(TableReads):
    def get(self, namespace: str, job_id: str, version: int) -> Job | None:
        """Returns a version that was not dropped, or that an allocation still refers to."""
        sql = f"""{_VERSIONS} WHERE v.namespace = ? AND v.id = ? AND v.version = ?
            ORDER BY v.job_create_index DESC LIMIT 1"""
        row = self._connection.execute(sql, (namespace, job_id, version)).fetchone()
        return job_of(row) if row else None

    def of_allocation(self, held: Allocation) -> Job | None:
        """Returns the job version that the allocation runs.

        A job that was purged and registered again counts its versions from 0 again: the version
        returned is that of the registration which the allocation was placed for. None only for
        data of servers that lost versions.
        """
        key = (held.namespace, held.job_id, held.job_version, held.create_index)
        row = self._connection.execute(_OF_ALLOCATION, key).fetchone()
        return job_of(row) if row else None

    def nearest_to_allocation(self, held: Allocation) -> Job | None:
        """Returns the version that the allocation runs, or the nearest one that is stored."""
        key = (held.namespace, held.job_id, held.job_version, held.create_index)
        row = self._connection.execute(_NEAREST, key).fetchone()
        return job_of(row) if row else None

    def of_job(self, namespace: str, job_id: str) -> list[Job]:
        """Returns the versions of a registered job that were not dropped, newest first."""
        sql = f"""{_VERSIONS} JOIN jobs j ON j.namespace = v.namespace AND j.id = v.id
            AND j.create_index = v.job_create_index
            WHERE v.namespace = ? AND v.id = ? AND v.retired = 0 ORDER BY v.version DESC"""
        return [job_of(row) for row in self._rows(sql, (namespace, job_id))]

    def running_with_services(
        self, namespace: str | None
    ) -> dict[tuple[str, str, int], frozenset[str]]:
        """Returns (namespace, id, version) of what runs and has services of the provider "nomad"
        -> the names of those, with references not replaced.

        Decodes nothing else: there may be many jobs.
        """
        found: dict[tuple[str, str, int], frozenset[str]] = {}
        for within, job_id, version, body in self._rows(_RUNNING, (namespace,)):
            groups = _ONLY_SERVICES.decode(cast(bytes, body)).task_groups
            names = frozenset(
                service.name
                for group in groups
                for owner in (group, *group.tasks)
                for service in owner.services or ()
                if service.provider == "nomad"
            )
            if names:
                key = cast(str, within), cast(str, job_id), cast(int, version)
                found[key] = found.get(key, frozenset()) | names
        return found

    def stored_of_job(self, namespace: str, job_id: str) -> list[tuple[int, int]]:
        """Returns (create index of the registration, version) of all versions, dropped ones too."""
        sql = "SELECT job_create_index, version FROM job_versions WHERE namespace = ? AND id = ?"
        return cast(list[tuple[int, int]], self._rows(sql, (namespace, job_id)))

    def origin(self, namespace: str, job_id: str, version: int) -> tuple[JobOrigin | None, int]:
        """Returns (origin of the version, None if it is gone; create index of the registered job
        that it is a version of, 0 if that job was purged).

        Decodes only the origin: every plan asks.
        """
        row = self._connection.execute(_ORIGIN, (namespace, job_id, version)).fetchone()
        if row is None:
            return None, 0
        body, is_registered, create_index = row
        return _ONLY_ORIGIN.decode(body).origin or JobOrigin(), create_index if is_registered else 0


_PUT_VERSION = """INSERT INTO job_versions (namespace, id, job_create_index, version, retired,
    stable, tagged, status, status_description, modify_index, body)
    VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, id, job_create_index, version) DO UPDATE SET retired = 0,
    stable = excluded.stable, tagged = excluded.tagged, status = excluded.status,
    status_description = excluded.status_description, modify_index = excluded.modify_index,
    body = excluded.body"""


class JobVersionWrites(JobVersionReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, job: Job) -> None:
        """Store the job as the version that it says."""
        self._connection.execute(
            _PUT_VERSION,
            (
                *(job.namespace, job.id, job.create_index, job.version, job.stable),
                *(job.version_tag is not None, job.status, job.status_description),
                *(job.modify_index, _encode(job)),
            ),
        )
        self._changed(job.namespace, job.id)

    def set_current_status(self, namespace: str, job_id: str, status: str) -> None:
        """Set the status of the registered job's current version."""
        self._connection.execute(
            """UPDATE job_versions SET status = ?, status_description = '', modify_index = ?
            WHERE namespace = ? AND id = ? AND (job_create_index, version) =
            (SELECT create_index, version FROM jobs WHERE namespace = ? AND id = ?)""",
            (status, self._entry.index, namespace, job_id, namespace, job_id),
        )

    def set_stable(self, job: Job, stable: bool) -> None:
        """Set the stability of the version that `job` is."""
        self._connection.execute(
            """UPDATE job_versions SET stable = ?, modify_index = ?
            WHERE namespace = ? AND id = ? AND job_create_index = ? AND version = ?""",
            (stable, self._entry.index, job.namespace, job.id, job.create_index, job.version),
        )
        self._entry.changed("jobs", [job_key(job.namespace, job.id)])
        self._changed(job.namespace, job.id)

    def put_tag(self, job: Job) -> None:
        """Store the version with the tag that it has, or has no more."""
        self.put(job)
        self._entry.changed("jobs", [job_key(job.namespace, job.id)])

    def drop(self, job: Job, version: int) -> None:
        """Drop one version of the registered job."""
        self._connection.execute(
            """UPDATE job_versions SET retired = 1
            WHERE namespace = ? AND id = ? AND job_create_index = ? AND version = ?""",
            (job.namespace, job.id, job.create_index, version),
        )
        self.delete_unreferenced(job.namespace, job.id)
        self._changed(job.namespace, job.id)

    def drop_of_job(self, namespace: str, job_id: str) -> None:
        """Drop all versions of the job."""
        self._connection.execute(
            """UPDATE job_versions SET retired = 1
            WHERE namespace = ? AND id = ? AND retired = 0""",
            (namespace, job_id),
        )
        self.delete_unreferenced(namespace, job_id)
        self._changed(namespace, job_id)

    def delete_unreferenced(self, namespace: str, job_id: str) -> None:
        """Delete dropped versions that no allocation refers to."""
        self._connection.execute(
            """DELETE FROM job_versions WHERE namespace = ?1 AND id = ?2 AND retired = 1
            AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.namespace = ?1 AND a.job_id = ?2
                            AND a.job_version = job_versions.version)""",
            (namespace, job_id),
        )

    def _changed(self, namespace: str, job_id: str) -> None:
        self._entry.changed("job_versions", [job_key(namespace, job_id)])
