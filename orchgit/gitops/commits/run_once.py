"""Which jobs that run once a source has applied, so that none of them runs twice. Pure.

A batch job's record is collected some time after the job completed, and a person may stop or purge
the job. It is created again only when both its file and the job that the file means changed, or
when a person asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from orchgit.gitops.commits.actions import RegisteredJob
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.model.ownership import runs_once
from orchgit.model.source import AppliedJob
from orchgit.services.jobs.spec_id import spec_id_of
from orchgit.state.snapshot import StateReads


@dataclass(frozen=True, slots=True)
class RunOnceChange:
    """Rows of the `applied_jobs` table that a commit's log entry writes (`remember`) and deletes
    (`forget`)."""

    remember: tuple[AppliedJob, ...] = ()
    forget: tuple[JobKey, ...] = ()


def run_once_records(
    snapshot: StateReads, source: str, unrecorded: Mapping[JobKey, DesiredJob]
) -> dict[JobKey, AppliedJob]:
    """Returns what is recorded of jobs that run once: the source's own, and those of removed
    sources, so that a source that takes a file over does not repeat its work. `unrecorded`
    are applied jobs that an earlier version of the program did not record."""
    found = {key: _record(job, "") for key, job in unrecorded.items() if runs_once(job.job)}
    for row in (*snapshot.applied_jobs.of_source(""), *snapshot.applied_jobs.of_source(source)):
        found[row.namespace, row.job_id] = row
    return found


def finished_jobs(
    desired: Mapping[JobKey, DesiredJob],
    registered: Mapping[JobKey, RegisteredJob],
    records: Mapping[JobKey, AppliedJob],
) -> set[JobKey]:
    """Returns the jobs that were applied as they are wanted now, and that are stopped or no longer
    registered."""
    return {
        key
        for key, job in desired.items()
        if runs_once(job.job)
        and ((known := registered.get(key)) is None or known.job.stop)
        and (applied := records.get(key)) is not None
        and _is_same_work(job, applied)
    }


def run_once_change(
    source: str,
    desired: Mapping[JobKey, DesiredJob],
    records: Mapping[JobKey, AppliedJob],
    unchanged: Collection[JobKey],
) -> RunOnceChange:
    """Returns how the records change with a commit that wants `desired`. Jobs in `unchanged` have
    an up-to-date record already."""
    remember = []
    for key, job in desired.items():
        if key in unchanged or not runs_once(job.job):
            continue
        applied = records.get(key)
        if applied is None or (applied.source, applied.content_id) != (source, job.content_id):
            remember.append(_record(job, source))
    forget = [
        key
        for key, applied in records.items()
        if applied.source == source and (key not in desired or not runs_once(desired[key].job))
    ]
    return RunOnceChange(tuple(remember), tuple(forget))


def _is_same_work(job: DesiredJob, applied: AppliedJob) -> bool:
    """Compares content first, then meaning: an upgrade may read another job from the same file, and
    an edit may leave the job as it was. Neither is a reason to repeat work."""
    if job.content_id and job.content_id == applied.content_id:
        return True
    return spec_id_of(job.job) == applied.spec_id


def _record(job: DesiredJob, source: str) -> AppliedJob:
    namespace, job_id = job.key
    return AppliedJob(
        namespace=namespace,
        job_id=job_id,
        source=source,
        content_id=job.content_id,
        spec_id=spec_id_of(job.job),
    )
