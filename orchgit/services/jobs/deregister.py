"""Stops a job, or purges it."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.model.allocation import DesiredTransition
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.job import ChangedBy, Job
from orchgit.replication.commands.allocations import UpdateAllocTransitions
from orchgit.replication.commands.jobs import JobDeletion
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_to_run
from orchgit.services.jobs.by_hand import deregister_by_hand, source_warnings
from orchgit.services.jobs.register import JobRegistration, job_modify_index


@dataclass(frozen=True, slots=True)
class DeregisterOptions:
    """How a job is stopped; `changed_by` is the person who does it."""

    purge: bool = False
    no_shutdown_delay: bool = False
    eval_priority: int = 0
    changed_by: ChangedBy | None = None


async def deregister_job(
    context: UseCaseContext, namespace: str, job_id: str, options: DeregisterOptions
) -> JobRegistration:
    """Stops the job. Stopping an unknown job succeeds, as Nomad's clients expect."""
    with context.snapshot() as snapshot:
        job = snapshot.jobs.get(namespace, job_id)
        index = snapshot.index
    if job is None:
        return JobRegistration(index=index, job_modify_index=0)
    if options.no_shutdown_delay:
        await _skip_shutdown_delays(context, job)
    evaluation = evaluation_to_run(
        context, job, EvalTrigger.JOB_DEREGISTER, priority=options.eval_priority
    )
    deletion = JobDeletion(namespace, job_id, purge=options.purge)
    warnings = () if options.changed_by is None else source_warnings(context, job)
    applied = await deregister_by_hand(context, job, deletion, evaluation, options.changed_by)
    return JobRegistration(
        index=applied.index,
        job_modify_index=job_modify_index(applied),
        eval_id=evaluation.id if evaluation else "",
        eval_create_index=applied.index if evaluation else 0,
        warnings=warnings,
    )


async def _skip_shutdown_delays(context: UseCaseContext, job: Job) -> None:
    with context.snapshot() as snapshot:
        allocations = snapshot.allocations.of_job(job.namespace, job.id)
    transitions = {
        allocation.id: DesiredTransition(no_shutdown_delay=True)
        for allocation in allocations
        if not allocation.is_terminal
    }
    if transitions:
        await context.propose(
            UpdateAllocTransitions(now_ns=context.now_ns(), transitions=transitions)
        )
