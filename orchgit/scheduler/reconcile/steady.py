"""Which allocations a job is reconciled with: not each steady one, and none of a purged job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from orchgit.model.allocation import Allocation
from orchgit.model.job import Job
from orchgit.model.job_allocations import JobAllocations
from orchgit.scheduler.ports import ClusterView


def read_allocations(view: ClusterView, key: tuple[str, str], job: Job | None) -> JobAllocations:
    """The job's allocations, steady ones apart only where none of them can be touched: nothing
    exceeds a count, is of another version, or waits for its node. Claims of volumes need each.

    Canaries and the health of a deployment decide only about what is of another version."""
    if job is not None and not job.stop and not any(group.volumes for group in job.task_groups):
        allocations = view.job_allocations(job)
        allocations = replace(allocations, others=of_registration(allocations.others, job))
        if not allocations.steady or _leaves_steady_alone(allocations, job):
            return allocations
    return JobAllocations(of_registration(view.allocations_by_job(*key), job))


def of_registration(allocations: Sequence[Allocation], job: Job | None) -> list[Allocation]:
    """Leaves out what ended before the job was registered. It is of a job of the same id that was
    purged, whose versions counted from 0 too, so that it would be taken for work of this job."""
    return [
        each
        for each in allocations
        if job is None or not each.is_client_terminal or each.is_of_registration(job.create_index)
    ]


def _leaves_steady_alone(allocations: JobAllocations, job: Job) -> bool:
    in_play = [
        a for a in allocations.others if not a.is_server_terminal or a.desired_transition.reschedule
    ]
    return not (
        _exceeds_count(allocations, in_play, job)
        # These are compared with others: with those of another version, and with those that
        # replaced them while they were unknown.
        or any(a.job_version != job.version or a.alloc_states for a in in_play)
    )


def _exceeds_count(allocations: JobAllocations, in_play: Sequence[Allocation], job: Job) -> bool:
    more = Counter(allocation.task_group for allocation in in_play)
    return any(
        len(allocations.steady[group.name]) + more[group.name] > group.count
        for group in job.task_groups
    )
