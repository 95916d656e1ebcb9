"""Stops one allocation; the scheduler places it again, elsewhere if need be."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.errors import NotFoundError
from orchgit.model.allocation import DesiredTransition
from orchgit.model.evaluation import EvalTrigger
from orchgit.replication.commands.allocations import UpdateAllocTransitions
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.state.jobs_of_node import purged_job_of


@dataclass(frozen=True, slots=True)
class Stopped:
    index: int
    eval_id: str


async def stop_allocation(
    context: UseCaseContext, alloc_id: str, no_shutdown_delay: bool = False
) -> Stopped:
    """Marks the allocation for migration and evaluates its job.

    The job may have been purged: its evaluation stops what is left of it.
    """
    with context.snapshot() as snapshot:
        allocation = snapshot.allocations.get(alloc_id)
        job = snapshot.jobs.get(allocation.namespace, allocation.job_id) if allocation else None
    if allocation is None:
        raise NotFoundError("allocation not found")
    transition = DesiredTransition(migrate=True, no_shutdown_delay=no_shutdown_delay or None)
    evaluation = evaluation_for_job(
        context, job or purged_job_of(allocation), EvalTrigger.ALLOC_STOP
    )
    applied = await context.propose(
        UpdateAllocTransitions(
            now_ns=context.now_ns(),
            transitions={alloc_id: transition},
            evaluations=[evaluation],
        )
    )
    return Stopped(applied.index, evaluation.id)
