"""Makes evaluations: always pending, ids and time from the caller."""

from __future__ import annotations

from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.model.node import Node


def evaluation_of(
    job: Job,
    trigger: str,
    ids: IdSource,
    now_ns: int,
    *,
    node: Node | None = None,
    deployment_id: str = "",
    priority: int = 0,
    rollout_id: str | None = None,
) -> Evaluation:
    """Returns one pending evaluation of the job.

    `priority` 0 and no `rollout_id` mean the job's own. Its `job_modify_index` is that of the job
    as it was read; an entry that also stores the job overwrites it.
    """
    if rollout_id is None:
        rollout_id = job.origin.rollout_id if job.origin else ""
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
        rollout_id=rollout_id,
        create_time_ns=now_ns,
        modify_time_ns=now_ns,
    )
