"""What may be forgotten. Pure: each rule looks at one object and what refers to it.

`before_ns`: only what was last changed before then; a forced collection passes the present.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.clock import SECOND_NS
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job, JobStatus, JobType
from orchgit.model.node import Node, NodeStatus

BATCH_TYPES = (JobType.BATCH, JobType.SYSBATCH)


def job_is_over(job: Job) -> bool:
    """Nothing of it runs or will: it was stopped, or it was to run once and has.

    Parents of periodic and parameterized jobs wait for their next child until they are stopped.
    """
    if job.status != JobStatus.DEAD:
        return False
    if job.stop:
        return True
    return job.type in BATCH_TYPES and not (job.is_periodic or job.is_parameterized)


def what_is_over(
    evaluation: Evaluation, allocations: Sequence[Allocation], job: Job | None, before_ns: int
) -> tuple[bool, Sequence[Allocation]]:
    """(whether the evaluation may go, which of its allocations may).

    A batch job that is registered needs those of its current version, to know what has been run.
    """
    if not evaluation.is_terminal or evaluation.modify_time_ns > before_ns:
        return False, ()
    if evaluation.type in BATCH_TYPES and job is not None and not job.stop:
        old = [
            held
            for held in allocations
            if held.create_index < job.job_modify_index
            and held.is_client_terminal
            and held.modify_time_ns <= before_ns
        ]
        return len(old) == len(allocations), old
    whole = all(allocation_is_over(held, job, before_ns) for held in allocations)
    return whole, allocations if whole else ()


def allocation_is_over(allocation: Allocation, job: Job | None, before_ns: int) -> bool:
    """Over for servers and agent, and no rescheduling to come of it."""
    if not allocation.is_terminal or allocation.modify_time_ns > before_ns:
        return False
    if not allocation.is_client_terminal:
        return False
    if job is None or job.stop or allocation.is_server_terminal:
        return True
    if allocation.client_status != ClientStatus.FAILED:
        return True
    return bool(allocation.next_allocation)


def deployment_is_over(
    deployment: Deployment, allocations: Sequence[Allocation], before_ns: int
) -> bool:
    if deployment.is_active or deployment.modify_time_ns > before_ns:
        return False
    return all(held.is_terminal for held in allocations)


def node_is_over(node: Node, allocation_count: int, before_ns: int) -> bool:
    """Down for long, with nothing left that was placed on it."""
    if node.status != NodeStatus.DOWN or allocation_count:
        return False
    return node.status_updated_at * SECOND_NS <= before_ns
