"""What the state says now of all jobs of one source, in two queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from orchgit.state.tables.base import TableReads

_JOBS = """SELECT j.namespace, j.id, j.type, j.version, j.status, j.periodic OR j.parameterized,
        j.job_modify_index,
        total(s.queued), total(s.running), total(s.starting), total(s.failed), total(s.unknown),
        max(j.modify_index, coalesce(max(s.modify_index), 0))
    FROM jobs j LEFT JOIN job_summaries s ON s.namespace = j.namespace AND s.job_id = j.id
    WHERE j.source = ?1 AND j.source != '' AND j.stop = 0 AND j.parent_id = ''
    GROUP BY j.namespace, j.id"""
_DEPLOYMENTS = """SELECT d.namespace, d.job_id, d.id, d.status, d.modify_index,
        max(d.create_index)
    FROM jobs j JOIN deployments d ON d.namespace = j.namespace AND d.job_id = j.id
        AND d.job_version = j.version AND d.create_index >= j.create_index
    WHERE j.source = ?1 AND j.source != '' AND j.stop = 0 AND j.parent_id = ''
    GROUP BY d.namespace, d.job_id"""


@dataclass(frozen=True, slots=True)
class SourceJob:
    """A registered job of a source that is not stopped, and the counts of its allocations.

    `queued` are those that found no place. `failed` counts all that ever failed and are not
    collected. The deployment is the newest one of the current version; its id is '' if there is
    none. `modify_index` is the newest change of the job, its counts or its deployment.
    """

    namespace: str
    job_id: str
    type: str
    version: int
    status: str
    is_parent: bool
    job_modify_index: int
    queued: int
    running: int
    starting: int
    failed: int
    unknown: int
    modify_index: int
    deployment_id: str = ""
    deployment_status: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.job_id


class SourceJobReads(TableReads):
    def of_source(self, source: str) -> list[SourceJob]:
        """Returns the jobs that the source owns and that are not stopped, by namespace and id;
        without launched children."""
        deployments = {
            (namespace, job_id): (str(each), str(status), cast(int, index))
            for namespace, job_id, each, status, index, _ in self._rows(_DEPLOYMENTS, (source,))
        }
        found = []
        for row in self._rows(_JOBS, (source,)):
            namespace, job_id, kind, version, status, is_parent, job_index, *counts, index = row
            deployment = deployments.get((namespace, job_id), ("", "", 0))
            queued, running, starting, failed, unknown = (int(cast(float, each)) for each in counts)
            found.append(
                SourceJob(
                    namespace=str(namespace),
                    job_id=str(job_id),
                    type=str(kind),
                    version=cast(int, version),
                    status=str(status),
                    is_parent=bool(is_parent),
                    job_modify_index=cast(int, job_index),
                    queued=queued,
                    running=running,
                    starting=starting,
                    failed=failed,
                    unknown=unknown,
                    modify_index=max(cast(int, index), deployment[2]),
                    deployment_id=deployment[0],
                    deployment_status=deployment[1],
                )
            )
        return found
