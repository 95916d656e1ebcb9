"""Child jobs: one dispatch of a parameterized job, or one launch of a periodic one."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.clock import SECOND_NS
from orchgit.model.job import Job, JobStatus
from orchgit.whole_number import whole_number


def dispatched_id(parent: Job, prefix: str, now_ns: int, unique: str) -> str:
    middle = f"{prefix}-" if prefix else ""
    return f"{parent.id}/dispatch-{middle}{now_ns // SECOND_NS}-{unique[:8]}"


def launched_id(parent: Job, launch_ns: int) -> str:
    return f"{parent.id}/periodic-{launch_ns // SECOND_NS}"


def launched_ns(child_id: str) -> int:
    """Returns when the child was due, from its id; 0 if no schedule launched it."""
    _, is_launch, second = child_id.rpartition("/periodic-")
    return (whole_number(second) or 0) * SECOND_NS if is_launch else 0


def child_of(parent: Job, child_id: str, now_ns: int) -> Job:
    """Returns a new job with the parent's spec and none of its bookkeeping."""
    return replace(
        parent,
        id=child_id,
        name=child_id,
        parent_id=parent.id,
        periodic=None,
        status=JobStatus.PENDING,
        status_description="",
        stable=False,
        stop=False,
        version=0,
        version_tag=None,
        submit_time_ns=now_ns,
        create_index=0,
        modify_index=0,
        job_modify_index=0,
    )
