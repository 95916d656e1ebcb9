"""Makes a new evaluation of a job, as if the job had changed."""

from __future__ import annotations

from orchgit.errors import RefusedError
from orchgit.model.allocation import ClientStatus, DesiredTransition
from orchgit.model.evaluation import EvalTrigger
from orchgit.replication.commands.allocations import UpdateAllocTransitions
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.services.jobs.register import JobRegistration


async def evaluate_job(
    context: UseCaseContext, namespace: str, job_id: str, force_reschedule: bool = False
) -> JobRegistration:
    """Evaluates the job.

    With `force_reschedule`, failed allocations are replaced even where their policy says wait.
    """
    with context.snapshot() as snapshot:
        job = snapshot.jobs.get(namespace, job_id)
        allocations = snapshot.allocations.of_job(namespace, job_id) if force_reschedule else []
    if job is None:
        raise RefusedError("job not found")
    if job.is_periodic:
        raise RefusedError("can't evaluate periodic job")
    if job.is_parameterized:
        raise RefusedError("can't evaluate parameterized job")
    evaluation = evaluation_for_job(context, job, EvalTrigger.JOB_REGISTER)
    transitions = {
        allocation.id: DesiredTransition(force_reschedule=True)
        for allocation in allocations
        if allocation.client_status == ClientStatus.FAILED and not allocation.next_allocation
    }
    applied = await context.propose(
        UpdateAllocTransitions(
            now_ns=context.now_ns(), transitions=transitions, evaluations=[evaluation]
        )
        if transitions
        else UpsertEvaluations(now_ns=context.now_ns(), evaluations=[evaluation])
    )
    return JobRegistration(applied.index, job.job_modify_index, evaluation.id, applied.index)
