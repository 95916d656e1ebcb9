"""Pure rules that decide what may be deleted; each judges one object and what refers to it.

`before_ns`: only what was last changed before then; a forced collection passes the present.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchgit.clock import SECOND_NS
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import Evaluation
from orchgit.model.group import ReschedulePolicy
from orchgit.model.job import Job, JobStatus, JobType
from orchgit.model.node import Node, NodeStatus

BATCH_TYPES = (JobType.BATCH, JobType.SYSBATCH)


def has_tagged(versions: Iterable[Job]) -> bool:
    """Returns whether a version of the job is tagged; such a job is kept, because a person may look
    for the tag."""
    return any(version.version_tag is not None for version in versions)


def job_is_over(job: Job) -> bool:
    """Returns whether the job was stopped, or is a batch job that ran to its end.

    Parents of periodic and parameterized jobs wait for their next child until they are stopped.
    """
    if job.status != JobStatus.DEAD:
        return False
    if job.stop:
        return True
    return job.type in BATCH_TYPES and not (job.is_periodic or job.is_parameterized)


def is_old(evaluation: Evaluation, before_ns: int) -> bool:
    """Returns whether the evaluation ended at `before_ns` or earlier."""
    return evaluation.is_terminal and evaluation.modify_time_ns <= before_ns


def what_is_over(
    evaluation: Evaluation,
    allocations: Sequence[Allocation],
    job: Job | None,
    before_ns: int,
    now_ns: int,
    live_count: int = 0,
) -> tuple[bool, Sequence[Allocation]]:
    """Returns (whether the evaluation may be deleted, which of `allocations` may). The evaluation
    has, besides `allocations`, `live_count` others, which run.

    Ended allocations may be deleted while others of their evaluation live on, because those of a
    service may live for years. A registered batch job keeps the allocations of its current version,
    which record what it has run.
    """
    if not is_old(evaluation, before_ns):
        return False, ()
    if evaluation.type in BATCH_TYPES and job is not None and not job.stop:
        old = [
            held
            for held in allocations
            if held.create_index < job.job_modify_index
            and held.is_client_terminal
            and held.modify_time_ns <= before_ns
        ]
        return len(old) == len(allocations) + live_count, old
    over = [held for held in allocations if allocation_is_over(held, job, before_ns, now_ns)]
    return len(over) == len(allocations) + live_count, over


def allocation_is_over(
    allocation: Allocation, job: Job | None, before_ns: int, now_ns: int
) -> bool:
    """Returns whether the allocation has ended for the servers and its agent and cannot be
    rescheduled any more."""
    if not allocation.is_terminal or allocation.modify_time_ns > before_ns:
        return False
    if not allocation.is_client_terminal:
        return False
    if job is None or job.stop or allocation.is_server_terminal:
        return True
    if allocation.client_status != ClientStatus.FAILED or allocation.next_allocation:
        return True
    group = job.group(allocation.task_group)
    policy = group.reschedule_policy if group is not None else None
    return policy is None or not _may_be_rescheduled(allocation, policy, now_ns)


def _may_be_rescheduled(allocation: Allocation, policy: ReschedulePolicy, now_ns: int) -> bool:
    """Returns whether the policy may still replace the allocation, so that its reschedule history
    is needed; the history counts until the policy's interval has passed."""
    if policy.unlimited:
        return True
    if not policy.attempts:
        return False
    events = allocation.reschedule_tracker.events if allocation.reschedule_tracker else []
    return not events or now_ns - events[-1].reschedule_time <= policy.interval_ns


def deployment_is_old(deployment: Deployment, before_ns: int) -> bool:
    """Returns whether the deployment ended long ago; the caller keeps it while an allocation of it
    lives."""
    return not deployment.is_active and deployment.modify_time_ns <= before_ns


def node_is_over(node: Node, before_ns: int) -> bool:
    """Returns whether the node went down long ago; the caller keeps it while an allocation may
    still run on it."""
    return node.status == NodeStatus.DOWN and node.status_updated_at * SECOND_NS <= before_ns
