"""Whether two versions of a job ask for the same thing."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.model.job import Job


def bare_spec(job: Job) -> Job:
    """The job without what the server keeps about it: indexes, status, origin, times."""
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
    """Equal but for bookkeeping; `stop` counts, since a stopped job asks for nothing.

    The job's own update block does not count: what it asks for is in the groups' blocks.
    """
    return old.stop == new.stop and _asked(old) == _asked(new)


def _asked(job: Job) -> Job:
    return replace(bare_spec(job), update=None)
