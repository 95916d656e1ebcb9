"""What operators do to deployments: promote, pause, fail, judge health."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.deployment import (
    Deployment,
    DeploymentStatus,
    DeploymentStatusUpdate,
)
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.replication.commands.deployments import (
    FailDeployment,
    PromoteDeployment,
    ResumeDeployment,
    SetDeploymentHealth,
    UpdateDeploymentStatus,
)
from orchgit.scheduler.auto_revert import AutoRevert, auto_revert
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job
from orchgit.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DeploymentChange:
    index: int
    eval_id: str = ""
    reverted_job_version: int | None = None


async def promote_deployment(
    context: UseCaseContext, deployment_id: str, groups: Sequence[str] = ()
) -> DeploymentChange:
    """Lets the new version replace the old one, in `groups` or in all groups that have canaries."""
    with context.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "promote")
        evaluation = _evaluation(context, snapshot, deployment)
    chosen = _with_canaries(deployment, groups)
    applied = await context.propose(
        PromoteDeployment(
            now_ns=context.now_ns(),
            deployment_id=deployment_id,
            groups=chosen,
            evaluation=evaluation,
        )
    )
    return DeploymentChange(applied.index, evaluation.id if evaluation else "")


async def pause_deployment(
    context: UseCaseContext, deployment_id: str, pause: bool
) -> DeploymentChange:
    """Pauses or resumes the deployment.

    A paused deployment places nothing and need not progress; resumed, it has its whole progress
    deadline again.
    """
    with context.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "pause" if pause else "resume")
        evaluation = None if pause else _evaluation(context, snapshot, deployment)
    if not pause:
        resume = ResumeDeployment(
            now_ns=context.now_ns(), deployment_id=deployment_id, evaluation=evaluation
        )
        return _change((await context.propose(resume)).index, evaluation, None)
    status, description = DeploymentStatus.PAUSED, "Deployment is paused"
    update = _status_update(context, deployment, status, description)
    applied = await context.propose(UpdateDeploymentStatus(now_ns=context.now_ns(), update=update))
    return _change(applied.index, None, None)


async def fail_deployment(context: UseCaseContext, deployment_id: str) -> DeploymentChange:
    """Ends the deployment as failed; where a group asks for it, the last stable version runs
    again."""
    with context.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "fail")
        job = snapshot.jobs.get(deployment.namespace, deployment.job_id)
        revert = _revert(
            snapshot, deployment, "Deployment marked as failed", deployment.task_groups
        )
        evaluation = _evaluation(context, snapshot, deployment)
    applied = await context.propose(
        FailDeployment(
            now_ns=context.now_ns(),
            update=_status_update(context, deployment, DeploymentStatus.FAILED, revert.description),
            job=_again(context, revert),
            expected_modify_index=job.job_modify_index if job is not None else 0,
            evaluation=evaluation,
        )
    )
    return _change(applied.index, evaluation, revert.job)


async def set_deployment_health(
    context: UseCaseContext, deployment_id: str, healthy: Sequence[str], unhealthy: Sequence[str]
) -> DeploymentChange:
    """Records an operator's judgement of allocations; an unhealthy one fails the deployment."""
    if not healthy and not unhealthy:
        raise InvalidInputError("must specify at least one healthy/unhealthy allocation ID")
    with context.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "set health of allocations for a")
        members = {held.id for held in snapshot.allocations.of_deployment(deployment_id)}
        if others := [each for each in (*healthy, *unhealthy) if each not in members]:
            raise RefusedError(f"allocations {others} are not part of deployment {deployment_id}")
        sick = {held.task_group for held in snapshot.allocations.get_many(unhealthy)}
        revert = _revert(snapshot, deployment, "Failed due to unhealthy allocations", sick)
        evaluation = _evaluation(context, snapshot, deployment)
    update, job = None, None
    if unhealthy:
        update = _status_update(context, deployment, DeploymentStatus.FAILED, revert.description)
        job = _again(context, revert)
    applied = await context.propose(
        SetDeploymentHealth(
            now_ns=context.now_ns(),
            deployment_id=deployment_id,
            healthy_alloc_ids=list(healthy),
            unhealthy_alloc_ids=list(unhealthy),
            update=update,
            job=job,
            evaluation=evaluation,
        )
    )
    return _change(applied.index, evaluation, job)


def _revert(
    snapshot: Snapshot, deployment: Deployment, reason: str, groups: Iterable[str]
) -> AutoRevert:
    """Returns what a failure of these groups reverts to, if one of the groups has `auto_revert`."""
    versions = snapshot.job_versions.of_job(deployment.namespace, deployment.job_id)
    failed = (deployment.task_groups.get(name) for name in groups)
    wanted = any(state.auto_revert for state in failed if state is not None)
    return auto_revert(deployment, reason, wanted, versions)


def _again(context: UseCaseContext, revert: AutoRevert) -> Job | None:
    return revert.job and replace(revert.job, submit_time_ns=context.now_ns())


def _active(snapshot: Snapshot, deployment_id: str, verb: str) -> Deployment:
    deployment = snapshot.deployments.get(deployment_id)
    if deployment is None:
        raise RefusedError("deployment not found")
    if not deployment.is_active:
        raise RefusedError(f"can't {verb} terminal deployment")
    return deployment


def _evaluation(
    context: UseCaseContext, snapshot: Snapshot, deployment: Deployment
) -> Evaluation | None:
    job = snapshot.jobs.get(deployment.namespace, deployment.job_id)
    if job is None:
        return None
    return evaluation_for_job(
        context, job, EvalTrigger.DEPLOYMENT_WATCHER, deployment_id=deployment.id
    )


def _with_canaries(deployment: Deployment, groups: Sequence[str]) -> list[str]:
    """Returns the groups whose canaries wait, all of them healthy.

    Looks at `groups`, or at all groups of the deployment where none is named.
    """
    if unknown := [name for name in groups if name not in deployment.task_groups]:
        raise RefusedError(f"cannot promote groups {unknown}: the deployment has no such groups")
    chosen = {
        name: state
        for name, state in deployment.task_groups.items()
        if (not groups or name in groups) and state.desired_canaries and not state.promoted
    }
    if not chosen:
        raise RefusedError("no canaries to promote")
    for name, state in chosen.items():
        if state.healthy_allocs < state.desired_canaries:
            raise RefusedError(
                f'Task group "{name}" has {state.healthy_allocs}/{state.desired_canaries} '
                "healthy allocations"
            )
    return list(chosen)


def _status_update(
    context: UseCaseContext, deployment: Deployment, status: str, description: str
) -> DeploymentStatusUpdate:
    return DeploymentStatusUpdate(deployment.id, status, description, context.now_ns())


def _change(index: int, evaluation: Evaluation | None, job: Job | None) -> DeploymentChange:
    return DeploymentChange(
        index, evaluation.id if evaluation else "", job.version if job else None
    )
