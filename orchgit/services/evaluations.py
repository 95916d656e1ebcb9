"""Makes the evaluations of use cases: always pending, with the caller's clock and ids."""

from __future__ import annotations

from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.model.new_evaluation import evaluation_of
from orchgit.model.node import Node
from orchgit.services.context import UseCaseContext


def evaluation_for_job(
    context: UseCaseContext,
    job: Job,
    trigger: str,
    *,
    priority: int = 0,
    node: Node | None = None,
    deployment_id: str = "",
    rollout_id: str = "",
) -> Evaluation:
    """Like `evaluation_of`, with the context's clock and ids; without `rollout_id` it belongs to
    no rollout."""
    return evaluation_of(
        job,
        trigger,
        context.ids,
        context.now_ns(),
        node=node,
        deployment_id=deployment_id,
        priority=priority,
        rollout_id=rollout_id,
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
