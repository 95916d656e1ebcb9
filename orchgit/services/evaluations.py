"""Makes the evaluations of use cases: always pending, with the caller's clock and ids."""

from __future__ import annotations

from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.job import Job
from orchgit.services.context import UseCaseContext


def evaluation_for_job(
    context: UseCaseContext,
    job: Job,
    trigger: str,
    *,
    priority: int = 0,
    node_id: str = "",
    node_modify_index: int = 0,
    deployment_id: str = "",
    rollout_id: str = "",
) -> Evaluation:
    """Returns one pending evaluation of `job`; with `priority` 0 it has the job's priority.

    Its `job_modify_index` is that of the job as it was read; an entry that also stores the job
    overwrites it.
    """
    now_ns = context.now_ns()
    return Evaluation(
        id=context.ids.new(),
        namespace=job.namespace,
        priority=priority or job.priority,
        type=job.type,
        triggered_by=trigger,
        job_id=job.id,
        job_modify_index=job.job_modify_index,
        node_id=node_id,
        node_modify_index=node_modify_index,
        deployment_id=deployment_id,
        rollout_id=rollout_id,
        status=EvalStatus.PENDING,
        create_time_ns=now_ns,
        modify_time_ns=now_ns,
    )


def evaluation_to_run(
    context: UseCaseContext, job: Job, trigger: str, *, priority: int = 0
) -> Evaluation | None:
    """Like `evaluation_for_job`; None for a parent that runs nothing itself."""
    if not runs_by_itself(job):
        return None
    return evaluation_for_job(context, job, trigger, priority=priority)


def runs_by_itself(job: Job) -> bool:
    """Returns whether registering `job` places anything: periodic and parameterized parents
    do not."""
    return not (job.is_periodic or job.is_parameterized)
