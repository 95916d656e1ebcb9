"""Which jobs are evaluated again when a node changes."""

from __future__ import annotations

from fnmatch import fnmatchcase

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node
from orchgit.state.snapshot import Snapshot

_ALL_POOLS = "all"


def jobs_of_node(snapshot: Snapshot, node: Node) -> list[Job]:
    """Returns the jobs with allocations on the node that have not ended, and the system jobs that
    run on every node like it, unless they have done their work on this one.

    A job that was purged is returned as its allocation knows it.
    """
    on_node = snapshot.allocations.of_node(node.id)
    held_of = {
        (each.namespace, each.job_id): each for each in on_node if not each.is_client_terminal
    }
    done = {
        (each.namespace, each.job_id, each.job_version)
        for each in on_node
        if each.client_status == ClientStatus.COMPLETE and not each.is_server_terminal
    }
    jobs = {key: snapshot.jobs.get(*key) or purged_job_of(held_of[key]) for key in sorted(held_of)}
    for job in snapshot.jobs.of_type(JobType.SYSTEM, JobType.SYSBATCH):
        key = job.namespace, job.id, job.version
        if _runs_on(job, node) and not (job.type == JobType.SYSBATCH and key in done):
            jobs.setdefault((job.namespace, job.id), job)
    return list(jobs.values())


def purged_job_of(allocation: Allocation) -> Job:
    """Returns what an evaluation says of its job, as an allocation of the purged job knows it."""
    return Job(namespace=allocation.namespace, id=allocation.job_id, type=allocation.job_type)


def _runs_on(job: Job, node: Node) -> bool:
    """Returns whether a system job runs on this node; periodic and parameterized parents do not."""
    return (
        not (job.stop or job.is_periodic or job.is_parameterized)
        and job.node_pool in (node.node_pool, _ALL_POOLS)
        and any(fnmatchcase(node.datacenter, pattern) for pattern in job.datacenters)
    )
