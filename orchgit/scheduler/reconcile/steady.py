"""When a job can be reconciled without looking at each of its steady allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment, DeploymentStatus
from orchgit.model.job import Job
from orchgit.model.steady import JobAllocations
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.reconcile.reschedule import had_no_placement


def read_allocations(
    view: ClusterView, key: tuple[str, str], job: Job | None, latest: Deployment | None
) -> JobAllocations:
    """The job's allocations, steady ones apart only where none of them can be touched: nothing
    exceeds a count, rolls, waits for its node, or is a canary. Claims of volumes need each."""
    if job is not None and not job.stop and not any(group.volumes for group in job.task_groups):
        allocations = view.job_allocations(job)
        if not allocations.steady or _leaves_steady_alone(allocations, job, latest):
            return allocations
    return JobAllocations(list(view.allocations_by_job(*key)))


def _leaves_steady_alone(allocations: JobAllocations, job: Job, latest: Deployment | None) -> bool:
    in_play = [a for a in allocations.others if not a.is_server_terminal or had_no_placement(a)]
    return not (
        _has_canaries(latest)
        or _exceeds_count(allocations, in_play, job)
        or any(_needs_the_rest(allocation, job) for allocation in in_play)
        or (_is_unfinished(latest) and any(a.desired_transition.migrate for a in in_play))
    )


def _has_canaries(latest: Deployment | None) -> bool:
    states = latest.task_groups.values() if latest is not None else ()
    return any(state.placed_canaries or state.desired_canaries for state in states)


def _is_unfinished(latest: Deployment | None) -> bool:
    """Its health decides how many may move at once."""
    return latest is not None and latest.status != DeploymentStatus.SUCCESSFUL


def _exceeds_count(allocations: JobAllocations, in_play: Sequence[Allocation], job: Job) -> bool:
    more = Counter(allocation.task_group for allocation in in_play)
    return any(
        len(allocations.steady[group.name]) + more[group.name] > group.count
        for group in job.task_groups
    )


def _needs_the_rest(allocation: Allocation, job: Job) -> bool:
    """It is compared with others: those of another version, those that replaced it."""
    return (
        allocation.job_version != job.version
        or allocation.client_status == ClientStatus.UNKNOWN
        or bool(allocation.alloc_states)
    )
