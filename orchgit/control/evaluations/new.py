"""Evaluations as the leader's loops make them: always pending, ids and time from the caller."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node

SYSTEM_TYPES = (JobType.SYSTEM, JobType.SYSBATCH)
ALL_POOLS = "all"


def evaluation_of(
    job: Job,
    trigger: str,
    ids: IdSource,
    now_ns: int,
    *,
    node: Node | None = None,
    deployment_id: str = "",
    priority: int = 0,
) -> Evaluation:
    """One pending evaluation of the job; `priority` 0 means the job's own."""
    return Evaluation(
        id=ids.new(),
        namespace=job.namespace,
        priority=priority or job.priority,
        type=job.type,
        triggered_by=trigger,
        job_id=job.id,
        job_modify_index=job.job_modify_index,
        node_id=node.id if node else "",
        node_modify_index=node.modify_index if node else 0,
        deployment_id=deployment_id,
        rollout_id=job.origin.rollout_id if job.origin else "",
        create_time_ns=now_ns,
        modify_time_ns=now_ns,
    )


def evaluation_of_purged(
    allocation: Allocation, trigger: str, ids: IdSource, now_ns: int, node: Node
) -> Evaluation:
    """Of a job that is gone while an allocation of it has not ended yet: somebody has to say what
    became of that one."""
    return Evaluation(
        id=ids.new(),
        namespace=allocation.namespace,
        type=allocation.job_type,
        triggered_by=trigger,
        job_id=allocation.job_id,
        node_id=node.id,
        node_modify_index=node.modify_index,
        create_time_ns=now_ns,
        modify_time_ns=now_ns,
    )


def system_jobs_on(jobs: Iterable[Job], node: Node) -> list[Job]:
    """Those that run on every node like this one; parents of periodic and dispatched jobs run
    nothing themselves."""
    return [
        job
        for job in jobs
        if job.type in SYSTEM_TYPES
        and not (job.stop or job.is_periodic or job.is_parameterized)
        and job.node_pool in (node.node_pool, ALL_POOLS)
        and any(fnmatchcase(node.datacenter, pattern) for pattern in job.datacenters)
    ]
