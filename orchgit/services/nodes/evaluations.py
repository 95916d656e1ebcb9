"""Decides which jobs are evaluated again when a node changes."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job, purged_job_of, runs_by_itself
from orchgit.state.snapshot import Snapshot

ALL_POOLS = "all"
SYSTEM_TYPES = (JobType.SYSTEM, JobType.SYSBATCH)


def evaluations_for_node(
    context: UseCaseContext, snapshot: Snapshot, node: Node
) -> list[Evaluation]:
    """Returns one evaluation per job with allocations on the node, and per system job that may run
    there.

    A job that was purged is evaluated too: its allocations on the node may not have ended yet.
    """
    held_of = {
        (allocation.namespace, allocation.job_id): allocation
        for allocation in snapshot.allocations.of_node(node.id)
        if not (allocation.is_server_terminal and allocation.is_client_terminal)
    }
    jobs = {key: snapshot.jobs.get(*key) for key in sorted(held_of)}
    for job in system_jobs(snapshot.jobs.of_type(*SYSTEM_TYPES), node):
        jobs.setdefault((job.namespace, job.id), job)
    return [
        evaluation_for_job(
            context,
            job if job is not None else purged_job_of(held_of[key]),
            EvalTrigger.NODE_UPDATE,
            node_id=node.id,
            node_modify_index=node.modify_index,
        )
        for key, job in jobs.items()
    ]


def system_jobs(jobs: Iterable[Job], node: Node) -> list[Job]:
    """Returns the jobs of `jobs` that run on every node like this one."""
    return [
        job
        for job in jobs
        if job.type in SYSTEM_TYPES
        and not job.stop
        and runs_by_itself(job)
        and job.node_pool in (node.node_pool, ALL_POOLS)
        and any(fnmatchcase(node.datacenter, pattern) for pattern in job.datacenters)
    ]
