"""Whether two versions of a job have the same specification."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.model.job import Job


def bare_spec(job: Job) -> Job:
    """Returns the job without the server's bookkeeping: indexes, status, origin, times."""
    return replace(
        job,
        nomad_token_id="",
        version_tag=None,
        origin=None,
        status="",
        status_description="",
        stop=False,
        stable=False,
        version=0,
        submit_time_ns=0,
        create_index=0,
        modify_index=0,
        job_modify_index=0,
    )


def same_spec(old: Job, new: Job) -> bool:
    """Whether the jobs are equal but for bookkeeping; `stop` counts.

    The job's own update block does not count: its content is in the blocks of the groups.
    """
    if old.stop != new.stop:
        return False
    return replace(bare_spec(old), update=None) == replace(bare_spec(new), update=None)
