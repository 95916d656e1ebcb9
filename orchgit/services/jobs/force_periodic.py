"""Launches a periodic job now, whatever its schedule says."""

from __future__ import annotations

from orchgit.errors import RefusedError
from orchgit.model.child_jobs import child_of, launched_id
from orchgit.model.evaluation import EvalTrigger
from orchgit.replication.commands.jobs import JobUpsert, RecordPeriodicLaunch, RegisterJob
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.services.jobs.admission import check_total_count
from orchgit.services.jobs.register import JobRegistration


async def periodic_force(context: UseCaseContext, namespace: str, job_id: str) -> JobRegistration:
    with context.snapshot() as snapshot:
        parent = snapshot.jobs.get(namespace, job_id)
    if parent is None:
        raise RefusedError("job not found")
    if parent.periodic is None or parent.is_parameterized:
        raise RefusedError("can't force launch non-periodic job")
    if parent.stop:
        raise RefusedError("can't force launch a stopped job; register it again first")
    if not parent.periodic.enabled:
        raise RefusedError("can't force launch a disabled periodic job; set enabled = true first")
    check_total_count(parent, context.job_settings.max_count)
    now_ns = context.now_ns()
    child = child_of(parent, launched_id(parent, now_ns), now_ns)
    evaluation = evaluation_for_job(context, child, EvalTrigger.PERIODIC_JOB)
    applied = await context.propose(
        RegisterJob(now_ns=now_ns, upsert=JobUpsert(child), evaluation=evaluation)
    )
    await context.propose(
        RecordPeriodicLaunch(
            now_ns=now_ns, namespace=namespace, job_id=job_id, launch_time_ns=now_ns
        )
    )
    return JobRegistration(applied.index, applied.index, evaluation.id, applied.index)
