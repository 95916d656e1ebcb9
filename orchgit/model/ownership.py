"""Which source owns a job, and what a registration by hand leaves as it is."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.model.job import Job, JobOrigin, JobType


def owner_of(job: Job | None) -> str:
    """Returns the name of the source that owns the job, or ''."""
    return job.origin.source if job is not None and job.origin is not None else ""


def with_owner_of(job: Job, registered: Job | None) -> Job:
    """Returns `job`, registered by hand over `registered`, with the owner and file of that one.

    An earlier version that runs again keeps the commit that it came from.
    """
    known = registered.origin if registered is not None else None
    if known is None:
        return job
    origin = job.origin or JobOrigin(file=known.file, line=known.line)
    return replace(
        job,
        origin=replace(
            origin,
            source=known.source,
            released_from=known.released_from,
            former_source=known.former_source,
        ),
    )


def runs_once(job: Job) -> bool:
    """Whether the job ends when its work is done, so that running it again repeats the work."""
    return job.type in (JobType.BATCH, JobType.SYSBATCH) and not (
        job.is_periodic or job.is_parameterized
    )
