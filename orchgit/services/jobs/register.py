"""Registers a job: admission, the index condition, one log entry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import RefusedError
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.job import ChangedBy, Job, JobSubmission
from orchgit.model.ownership import with_owner_of
from orchgit.raft_node.proposal import Applied
from orchgit.replication.apply.jobs import JobResult
from orchgit.replication.commands.jobs import JobUpsert
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_to_run
from orchgit.services.jobs.admission import completed, judged
from orchgit.services.jobs.by_hand import register_by_hand, source_warnings


@dataclass(frozen=True, slots=True)
class JobRegistration:
    """What registering did. `eval_id` is "" for a parent that runs nothing itself."""

    index: int
    job_modify_index: int
    eval_id: str = ""
    eval_create_index: int = 0
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RegisterOptions:
    """How a job is registered.

    `enforce_index` None is unconditional, 0 requires a new job, any other value is the expected
    JobModifyIndex. `in_thread` is for a job so large that judging it would block the event loop.
    `changed_by` is the person who does it; it is recorded of jobs that a source owns.
    """

    enforce_index: int | None = None
    preserve_counts: bool = False
    preserve_resources: bool = False
    eval_priority: int = 0
    submission: JobSubmission | None = None
    in_thread: bool = False
    changed_by: ChangedBy | None = None


async def register_job(
    context: UseCaseContext,
    job: Job,
    options: RegisterOptions = RegisterOptions(),
) -> JobRegistration:
    """Admits and commits `job`.

    The source that owns the job keeps it (`orchgit source release` frees it). Raises
    ValidationError, and RefusedError for a wrong index or a changed type.
    """
    job = completed(job)
    registered = await context.registered_job(job.namespace, job.id)
    check_enforced_index(options.enforce_index, registered)
    if options.preserve_resources and registered is not None:
        job = with_resources_of(job, registered)
    if options.preserve_counts and registered is not None:
        job = with_counts_of(job, registered)
    rules = context.cluster_rules()
    if options.in_thread:
        admitted = await asyncio.to_thread(judged, job, registered, rules)
    else:
        admitted = judged(job, registered, rules)
    job = replace(with_owner_of(job, registered), submit_time_ns=context.now_ns())
    evaluation = evaluation_to_run(
        context, job, EvalTrigger.JOB_REGISTER, priority=options.eval_priority
    )
    upsert = JobUpsert(job, options.submission, options.enforce_index)
    refusal = f"Enforcing job modify index {options.enforce_index}: the job changed meanwhile"
    applied = await register_by_hand(context, upsert, evaluation, options.changed_by, refusal)
    return JobRegistration(
        index=applied.index,
        job_modify_index=job_modify_index(applied),
        eval_id=evaluation.id if evaluation else "",
        eval_create_index=applied.index if evaluation else 0,
        warnings=(*admitted.warnings, *source_warnings(context, job)),
    )


def job_modify_index(applied: Applied) -> int:
    """Returns the JobModifyIndex of the job that an entry registered or stopped."""
    assert isinstance(applied.result, JobResult)
    return applied.result.job_modify_index


def check_enforced_index(expected: int | None, registered: Job | None) -> None:
    """Raises Nomad's three refusals of a wrong EnforceIndex, in words its clients look for."""
    if expected is None:
        return
    prefix = f"Enforcing job modify index {expected}: job"
    if registered is None and expected:
        raise RefusedError(f"{prefix} does not exist")
    if registered is not None and expected == 0:
        raise RefusedError(f"{prefix} already exists")
    if registered is not None and expected != registered.job_modify_index:
        found = registered.job_modify_index
        raise RefusedError(f"{prefix} exists with conflicting job modify index: {found}")


def with_resources_of(job: Job, registered: Job) -> Job:
    """Returns `job` with the resources of the registered job's tasks (an autoscaler's)."""
    known = {
        (group.name, task.name): task.resources
        for group in registered.task_groups
        for task in group.tasks
    }
    groups = [
        replace(
            group,
            tasks=[
                replace(task, resources=known.get((group.name, task.name), task.resources))
                for task in group.tasks
            ],
        )
        for group in job.task_groups
    ]
    return replace(job, task_groups=groups)


def with_counts_of(job: Job, registered: Job) -> Job:
    """Returns `job` with the counts of the registered job's groups (an autoscaler's)."""
    counts = {group.name: group.count for group in registered.task_groups}
    groups = [
        replace(group, count=counts.get(group.name, group.count)) for group in job.task_groups
    ]
    return replace(job, task_groups=groups)
