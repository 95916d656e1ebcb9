"""Changes the count of one task group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from orchgit.errors import InvalidInputError, NotFoundError, NotUnderstoodError
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.group import TaskGroup
from orchgit.model.job import ChangedBy, Job
from orchgit.model.scaling import ScalingEvent
from orchgit.replication.commands.jobs import JobUpsert, RecordScalingEvent
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_to_run
from orchgit.services.jobs.by_hand import register_by_hand, source_warnings
from orchgit.services.jobs.register import JobRegistration, check_enforced_index, job_modify_index


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """What a caller sends. With `count` None or `error`, an event is recorded and nothing
    scaled. `changed_by` is the person or autoscaler that sent it. A job with another
    `JobModifyIndex` than `expected_modify_index` is left alone; 0 expects nothing."""

    group: str
    count: int | None = None
    message: str = ""
    meta: dict[str, Any] | None = None
    error: bool = False
    policy_override: bool = False
    changed_by: ChangedBy | None = None
    expected_modify_index: int = 0


async def scale_job(
    context: UseCaseContext, namespace: str, job_id: str, request: ScaleRequest
) -> JobRegistration:
    if not request.group:
        raise InvalidInputError("missing task group name for scaling action")
    if request.error and request.count is not None:
        raise InvalidInputError("scaling action should not contain count if error is true")
    with context.snapshot() as snapshot:
        job = snapshot.jobs.get(namespace, job_id)
        index = snapshot.index
        deployment = snapshot.deployments.latest_of_job(namespace, job_id)
    if job is None:
        raise NotFoundError(f'job "{job_id}" not found')
    if request.expected_modify_index:
        check_enforced_index(request.expected_modify_index, job)
    group = _group(job, request.group)
    if request.error or request.count is None:
        index = await _record(context, job, group, request, None) or index
        return JobRegistration(index, job.job_modify_index)
    _check_bounds(group, request)
    if deployment is not None and deployment.is_active and deployment.job_version == job.version:
        raise InvalidInputError("job scaling blocked due to active deployment")
    _check_total(job, group, request.count, context.job_settings.max_count)
    done = await _register(context, job, group, request.count, request.changed_by)
    await _record(context, job, group, request, done.eval_id)
    return done


async def _record(
    context: UseCaseContext, job: Job, group: TaskGroup, request: ScaleRequest, eval_id: str | None
) -> int:
    """Returns the index of the recorded event; 0 while a server of the cluster is too old to
    record it."""
    event = ScalingEvent(
        time_ns=context.now_ns(),
        count=request.count,
        previous_count=group.count,
        message=request.message,
        error=request.error,
        meta=request.meta,
        eval_id=eval_id or None,
    )
    command = RecordScalingEvent(
        now_ns=context.now_ns(),
        namespace=job.namespace,
        job_id=job.id,
        group=group.name,
        event=event,
    )
    try:
        return (await context.propose(command)).index
    except NotUnderstoodError:
        return 0


def _group(job: Job, name: str) -> TaskGroup:
    if job.type in ("system", "sysbatch"):
        raise InvalidInputError("cannot scale jobs of type system; they run on every node")
    group = job.group(name)
    if group is None:
        raise InvalidInputError(f'task group "{name}" specified for scaling does not exist in job')
    return group


def _check_bounds(group: TaskGroup, request: ScaleRequest) -> None:
    count, policy = request.count or 0, group.scaling
    if count < 0:
        raise InvalidInputError("scaling action count can't be negative")
    if policy is None or request.policy_override:
        return
    bound = "group count was {} than scaling policy {}: {} {} {}"
    if count > policy.max:
        raise InvalidInputError(bound.format("greater", "maximum", count, ">", policy.max))
    if count < policy.min:
        raise InvalidInputError(bound.format("less", "minimum", count, "<", policy.min))


def _check_total(job: Job, group: TaskGroup, count: int, limit: int) -> None:
    """Refuses to scale above the limit; a job older than the limit may be scaled down."""
    total = sum(each.count for each in job.task_groups) - group.count + count
    if 0 < limit < total and count > group.count:
        raise InvalidInputError(
            f"cannot scale the job: its total count was greater than configured job_max_count: "
            f"{total} > {limit}"
        )


async def _register(
    context: UseCaseContext,
    job: Job,
    group: TaskGroup,
    count: int,
    changed_by: ChangedBy | None,
) -> JobRegistration:
    groups = [replace(each, count=count) if each is group else each for each in job.task_groups]
    changed = replace(job, task_groups=groups, submit_time_ns=context.now_ns())
    evaluation = evaluation_to_run(context, changed, EvalTrigger.JOB_SCALE)
    upsert = JobUpsert(changed, expected_modify_index=job.job_modify_index)
    refusal = "cannot scale the job: it was changed meanwhile; read it again"
    applied = await register_by_hand(context, upsert, evaluation, changed_by, refusal)
    # The count of a group with an enabled policy is the autoscaler's, whatever the file says.
    is_scaled = group.scaling is not None and group.scaling.enabled
    return JobRegistration(
        index=applied.index,
        job_modify_index=job_modify_index(applied),
        eval_id=evaluation.id if evaluation else "",
        eval_create_index=applied.index if evaluation else 0,
        warnings=() if is_scaled else source_warnings(context, job),
    )
