"""Deployments: status, promotion, health set by hand, and the revert that a failure may ask for."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import msgspec

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import (
    Deployment,
    DeploymentState,
    DeploymentStatus,
    DeploymentStatusUpdate,
)
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.replication.apply.allocations import set_health
from orchgit.replication.apply.deployment_counts import DeploymentCounts
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.apply.jobs import check_modify_index, mark_stability, upsert_job
from orchgit.replication.commands.deployments import (
    DeleteDeployments,
    FailDeployment,
    PromoteDeployment,
    ResumeDeployment,
    SetDeploymentHealth,
    UpdateDeploymentStatus,
)
from orchgit.replication.commands.jobs import JobUpsert
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def update_deployment_status(
    txn: WriteTxn, command: UpdateDeploymentStatus, effects: Effects
) -> None:
    set_status(txn, command.update, effects)
    _revert(txn, command.job, effects)
    _evaluate(txn, command.evaluation, effects)


def resume_deployment(txn: WriteTxn, command: ResumeDeployment, effects: Effects) -> None:
    """Run a paused deployment again; its progress deadlines start anew."""
    deployment = _active(txn, command.deployment_id)
    if deployment.status != DeploymentStatus.RUNNING:
        deployment.status = DeploymentStatus.RUNNING
        deployment.status_description = "Deployment is running"
        for state in deployment.task_groups.values():
            _restart_deadline(txn, state)
        _store(txn, deployment, "DeploymentStatusUpdate", effects)
    _evaluate(txn, command.evaluation, effects)


def fail_deployment(txn: WriteTxn, command: FailDeployment, effects: Effects) -> None:
    if command.job is not None:
        known = txn.jobs.get(command.job.namespace, command.job.id)
        check_modify_index(known, command.expected_modify_index, command.job.id)
    set_status(txn, command.update, effects)
    _revert(txn, command.job, effects)
    _evaluate(txn, command.evaluation, effects)


def set_status(txn: WriteTxn, update: DeploymentStatusUpdate, effects: Effects) -> None:
    """Set the status; the job version of a successful deployment becomes stable."""
    deployment = _active(txn, update.deployment_id)
    deployment.status = update.status
    deployment.status_description = update.status_description
    _store(txn, deployment, "DeploymentStatusUpdate", effects)
    if update.status == DeploymentStatus.SUCCESSFUL:
        mark_stability(
            txn, deployment.namespace, deployment.job_id, deployment.job_version, stable=True
        )


def _active(txn: WriteTxn, deployment_id: str) -> Deployment:
    deployment = txn.deployments.get(deployment_id)
    if deployment is None:
        raise NotFoundError(f"cannot change deployment {deployment_id!r}: there is no such")
    if not deployment.is_active:
        raise ConflictError(
            f"cannot change deployment {deployment_id!r}: it has ended ({deployment.status})"
        )
    return deployment


def _store(txn: WriteTxn, deployment: Deployment, type_: str, effects: Effects) -> None:
    deployment.modify_index, deployment.modify_time_ns = txn.index, txn.now_ns
    txn.deployments.put(deployment)
    effects.note(txn.index, type_, deployment)


def _revert(txn: WriteTxn, job: Job | None, effects: Effects) -> None:
    if job is not None:
        upsert_job(txn, JobUpsert(job=job), effects)


def _evaluate(txn: WriteTxn, evaluation: Evaluation | None, effects: Effects) -> None:
    if evaluation is None:
        return
    job = txn.jobs.get(evaluation.namespace, evaluation.job_id)
    if job is not None:
        evaluation.job_modify_index = job.job_modify_index
    store_evaluations(txn, [evaluation], effects)


def promote_deployment(txn: WriteTxn, command: PromoteDeployment, effects: Effects) -> None:
    """Promote the canaries of the groups, all of which must be healthy.

    A promoted allocation is an ordinary one from then on.
    """
    deployment = _active(txn, command.deployment_id)
    groups = command.groups or list(deployment.task_groups)
    canaries = _promotable(txn, deployment, groups)
    for state in (deployment.task_groups[name] for name in groups):
        if state.desired_canaries:
            state.promoted = True
            _restart_deadline(txn, state)
    records = txn.allocations.rows(canaries).values()
    for record in records:
        status = record.body.deployment_status
        if status is not None and status.canary:
            record.body.deployment_status = msgspec.structs.replace(
                status, canary=False, modify_index=txn.index
            )
            record.alloc_modify_index = txn.index
    txn.allocations.save(records)
    effects.note_allocs(txn.index, "DeploymentPromotion", canaries)
    _store(txn, deployment, "DeploymentPromotion", effects)
    _evaluate(txn, command.evaluation, effects)


def _promotable(txn: WriteTxn, deployment: Deployment, groups: Collection[str]) -> list[str]:
    """Returns the ids of the canaries. RefusedError names every group that is not ready."""
    canaries: list[str] = []
    problems = []
    for name in groups:
        state = deployment.task_groups.get(name)
        if state is None:
            problems.append(f"group {name!r} is not part of it")
            continue
        placed = list(state.placed_canaries or ())
        healthy = sum(
            record.healthy is True and record.live
            for record in txn.allocations.rows(placed).values()
        )
        if healthy < state.desired_canaries:
            problems.append(
                f"group {name!r} has {healthy}/{state.desired_canaries} healthy canaries"
            )
        canaries += placed
    if not problems and not any(deployment.task_groups[name].desired_canaries for name in groups):
        problems.append("it has no canaries to promote")
    if problems:
        raise RefusedError(f"cannot promote deployment {deployment.id!r}: {'; '.join(problems)}")
    return canaries


def _restart_deadline(txn: WriteTxn, state: DeploymentState) -> None:
    if state.progress_deadline_ns and state.require_progress_by is not None:
        allowed = timedelta(microseconds=state.progress_deadline_ns // 1000)
        state.require_progress_by = datetime_of_ns(txn.now_ns) + allowed


def set_deployment_health(txn: WriteTxn, command: SetDeploymentHealth, effects: Effects) -> None:
    deployment = _active(txn, command.deployment_id)
    wanted = dict.fromkeys(command.healthy_alloc_ids, True)
    wanted |= dict.fromkeys(command.unhealthy_alloc_ids, False)
    records = txn.allocations.rows(wanted)
    for alloc_id in wanted:
        if alloc_id not in records or records[alloc_id].deployment_id != deployment.id:
            raise RefusedError(
                f"cannot set the health of allocation {alloc_id!r}: it is not part of deployment "
                f"{deployment.id!r}"
            )
    for record in records.values():
        set_health(txn, record.body, wanted[record.id], txn.now_ns)
    counts = DeploymentCounts()
    counts.add_changes(records.values())
    txn.allocations.save(records.values())
    for changed in counts.write(txn):
        effects.note(txn.index, "DeploymentAllocHealth", changed)
    effects.note_allocs(txn.index, "DeploymentAllocHealth", list(records))
    if command.update is not None:
        set_status(txn, command.update, effects)
    _revert(txn, command.job, effects)
    _evaluate(txn, command.evaluation, effects)


def delete_deployments(txn: WriteTxn, command: DeleteDeployments, effects: Effects) -> None:
    txn.deployments.delete_all(command.ids)


HANDLERS: Handlers = {
    UpdateDeploymentStatus: update_deployment_status,
    ResumeDeployment: resume_deployment,
    FailDeployment: fail_deployment,
    PromoteDeployment: promote_deployment,
    SetDeploymentHealth: set_deployment_health,
    DeleteDeployments: delete_deployments,
}
