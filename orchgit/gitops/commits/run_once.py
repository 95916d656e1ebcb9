"""What a source remembers of the jobs that run once, so that none of them runs twice. Pure.

A completed batch job's record is collected after a while, and a person may stop or purge one. It is
created again only when its file changed, in content and in meaning, or when a person asks for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from orchgit.gitops.commits.actions import RegisteredJob
from orchgit.gitops.parsing.discovery import DesiredJob, JobKey
from orchgit.jobdiff.spec import bare_spec
from orchgit.model.job import Job
from orchgit.model.ownership import runs_once
from orchgit.model.source import AppliedJob
from orchgit.services.jobs.admission import completed
from orchgit.state.snapshot import StateReads

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class RunOnceChange:
    """What the log entry of a commit writes down, and what it strikes out."""

    remember: tuple[AppliedJob, ...] = ()
    forget: tuple[JobKey, ...] = ()


def run_once_records(
    snapshot: StateReads, source: str, reference: Mapping[JobKey, DesiredJob]
) -> dict[JobKey, AppliedJob]:
    """The source's jobs that run once, and those of removed sources: work that was done is not
    repeated because another source takes a file over. `reference` stands for what an earlier
    version of the program did not write down."""
    found = {key: _applied(job, "") for key, job in reference.items() if runs_once(job.job)}
    for row in (*snapshot.applied_jobs.of_source(""), *snapshot.applied_jobs.of_source(source)):
        found[row.namespace, row.job_id] = row
    return found


def finished_jobs(
    desired: Mapping[JobKey, DesiredJob],
    registered: Mapping[JobKey, RegisteredJob],
    remembered: Mapping[JobKey, AppliedJob],
) -> set[JobKey]:
    """Those that were applied as they are wanted, and whose record is gone or stopped since."""
    return {
        key
        for key, job in desired.items()
        if runs_once(job.job)
        and ((known := registered.get(key)) is None or known.job.stop)
        and (applied := remembered.get(key)) is not None
        and _is_the_same(job, applied)
    }


def run_once_change(
    source: str,
    desired: Mapping[JobKey, DesiredJob],
    remembered: Mapping[JobKey, AppliedJob],
    steady: Collection[JobKey],
) -> RunOnceChange:
    """`steady` are jobs that were remembered when they were applied, and are the same since."""
    remember = [
        _applied(job, source)
        for key, job in desired.items()
        if key not in steady and runs_once(job.job) and not _is_noted(source, job, remembered)
    ]
    forget = [
        key
        for key, applied in remembered.items()
        if applied.source == source and (key not in desired or not runs_once(desired[key].job))
    ]
    return RunOnceChange(tuple(remember), tuple(forget))


def _is_noted(source: str, job: DesiredJob, remembered: Mapping[JobKey, AppliedJob]) -> bool:
    applied = remembered.get(job.key)
    return applied is not None and applied.source == source and applied.content_id == job.content_id


def _is_the_same(job: DesiredJob, applied: AppliedJob) -> bool:
    """The job that comes of a file may change with the program that reads it, and a file may change
    without another job coming of it: neither is a reason to repeat work."""
    if job.content_id and job.content_id == applied.content_id:
        return True
    return _spec_id(job.job) == applied.spec_id


def _applied(job: DesiredJob, source: str) -> AppliedJob:
    namespace, job_id = job.key
    return AppliedJob(
        namespace=namespace,
        job_id=job_id,
        source=source,
        content_id=job.content_id,
        spec_id=_spec_id(job.job),
    )


def _spec_id(job: Job) -> str:
    return hashlib.sha256(_ENCODER.encode(bare_spec(completed(job)))).hexdigest()
