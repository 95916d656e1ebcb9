"""What operators do to deployments: promote, pause, fail, judge health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import InvalidInputError, NotFoundError, RefusedError
from orchgit.model.deployment import (
    Deployment,
    DeploymentState,
    DeploymentStatus,
    DeploymentStatusUpdate,
)
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.replication.commands import (
    PromoteDeployment,
    SetDeploymentHealth,
    UpdateDeploymentStatus,
)
from orchgit.services.evaluations import evaluation_for_job
from orchgit.services.world import World
from orchgit.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DeploymentChange:
    index: int
    eval_id: str = ""
    reverted_job_version: int | None = None


async def promote_deployment(
    world: World, deployment_id: str, groups: Sequence[str] = ()
) -> DeploymentChange:
    """Let the new version replace the old one; no `groups` means all that have canaries."""
    with world.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "promote")
        evaluation = _evaluation(world, snapshot, deployment)
    _check_canaries(deployment, groups)
    applied = await world.propose(
        PromoteDeployment(
            now_ns=world.now_ns(),
            deployment_id=deployment_id,
            groups=list(groups),
            evaluation=evaluation,
        )
    )
    return DeploymentChange(applied.index, evaluation.id if evaluation else "")


async def pause_deployment(world: World, deployment_id: str, pause: bool) -> DeploymentChange:
    with world.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "pause" if pause else "resume")
        evaluation = None if pause else _evaluation(world, snapshot, deployment)
    status = DeploymentStatus.PAUSED if pause else DeploymentStatus.RUNNING
    description = "Deployment is paused" if pause else "Deployment is running"
    return await _update(world, deployment, status, description, evaluation=evaluation)


async def fail_deployment(world: World, deployment_id: str) -> DeploymentChange:
    """End it; where a group asks for it, the last stable version runs again."""
    with world.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "fail")
        job = revert_target(snapshot, deployment)
        evaluation = _evaluation(world, snapshot, deployment)
    description = _failed("Deployment marked as failed", job)
    return await _update(
        world, deployment, DeploymentStatus.FAILED, description, job=job, evaluation=evaluation
    )


async def set_deployment_health(
    world: World, deployment_id: str, healthy: Sequence[str], unhealthy: Sequence[str]
) -> DeploymentChange:
    """Record a person's judgement of allocations; an unhealthy one fails the deployment."""
    if not healthy and not unhealthy:
        raise InvalidInputError("must specify at least one healthy/unhealthy allocation ID")
    with world.snapshot() as snapshot:
        deployment = _active(snapshot, deployment_id, "set health of allocations for a")
        _check_members(snapshot, deployment_id, [*healthy, *unhealthy])
        job = revert_target(snapshot, deployment) if unhealthy else None
        evaluation = _evaluation(world, snapshot, deployment)
    update = None
    if unhealthy:
        description = _failed("Failed due to unhealthy allocations", job)
        update = _status_update(world, deployment, DeploymentStatus.FAILED, description)
    applied = await world.propose(
        SetDeploymentHealth(
            now_ns=world.now_ns(),
            deployment_id=deployment_id,
            healthy_alloc_ids=list(healthy),
            unhealthy_alloc_ids=list(unhealthy),
            update=update,
            job=job,
            evaluation=evaluation,
        )
    )
    return _change(applied.index, evaluation, job)


def revert_target(snapshot: Snapshot, deployment: Deployment) -> Job | None:
    """The newest stable version before the deployment's, if any of its groups reverts by itself."""
    if not any(state.auto_revert for state in deployment.task_groups.values()):
        return None
    versions = snapshot.job_versions(deployment.namespace, deployment.job_id)
    older = (job for job in versions if job.stable and job.version < deployment.job_version)
    return next(older, None)


def _active(snapshot: Snapshot, deployment_id: str, verb: str) -> Deployment:
    deployment = snapshot.deployment(deployment_id)
    if deployment is None:
        raise NotFoundError("deployment not found")
    if not deployment.is_active:
        raise RefusedError(f"can't {verb} terminal deployment")
    return deployment


def _evaluation(world: World, snapshot: Snapshot, deployment: Deployment) -> Evaluation | None:
    job = snapshot.job(deployment.namespace, deployment.job_id)
    if job is None:
        return None
    return evaluation_for_job(
        world, job, EvalTrigger.DEPLOYMENT_WATCHER, deployment_id=deployment.id
    )


def _check_canaries(deployment: Deployment, groups: Sequence[str]) -> None:
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
        _check_group_healthy(name, state)


def _check_group_healthy(name: str, state: DeploymentState) -> None:
    if state.healthy_allocs < state.desired_canaries:
        raise RefusedError(
            f'Task group "{name}" has {state.healthy_allocs}/{state.desired_canaries} '
            "healthy allocations"
        )


def _check_members(snapshot: Snapshot, deployment_id: str, alloc_ids: Sequence[str]) -> None:
    members = {allocation.id for allocation in snapshot.allocations_by_deployment(deployment_id)}
    if strangers := [alloc_id for alloc_id in alloc_ids if alloc_id not in members]:
        raise RefusedError(f"allocations {strangers} are not part of deployment {deployment_id}")


def _failed(description: str, job: Job | None) -> str:
    return f"{description} - rolling back to job version {job.version}" if job else description


def _status_update(
    world: World, deployment: Deployment, status: str, description: str
) -> DeploymentStatusUpdate:
    return DeploymentStatusUpdate(deployment.id, status, description, world.now_ns())


async def _update(
    world: World,
    deployment: Deployment,
    status: str,
    description: str,
    *,
    job: Job | None = None,
    evaluation: Evaluation | None = None,
) -> DeploymentChange:
    applied = await world.propose(
        UpdateDeploymentStatus(
            now_ns=world.now_ns(),
            update=_status_update(world, deployment, status, description),
            job=replace(job, submit_time_ns=world.now_ns()) if job else None,
            evaluation=evaluation,
        )
    )
    return _change(applied.index, evaluation, job)


def _change(index: int, evaluation: Evaluation | None, job: Job | None) -> DeploymentChange:
    return DeploymentChange(
        index, evaluation.id if evaluation else "", job.version if job else None
    )
