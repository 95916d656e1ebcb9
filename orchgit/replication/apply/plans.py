"""Committing a plan: stops, preemptions, in-place updates, placements, claims, the deployment."""

from __future__ import annotations

import msgspec

from orchgit.errors import ConflictError
from orchgit.model.allocation import AllocState
from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment
from orchgit.model.job import JobOrigin
from orchgit.model.plan import (
    AllocPreemption,
    AllocStop,
    AllocUpdate,
    Placements,
    PlanResult,
    VolumeClaimRequest,
)
from orchgit.model.volume import TaskGroupVolumeClaim
from orchgit.replication.apply.allocations import merged, providing_services
from orchgit.replication.apply.deployment_counts import DeploymentCounts
from orchgit.replication.apply.deployments import set_status
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.plans import ApplyPlan, ApplyPlanResult
from orchgit.replication.events import Effects
from orchgit.state.tables.allocation_rows import AllocationRow
from orchgit.state.tables.job_versions import JobVersionReads
from orchgit.state.transaction import WriteTxn

Records = dict[str, AllocationRow]


def apply_plan(txn: WriteTxn, command: ApplyPlan, effects: Effects) -> int:
    """Returns the index at which the plan's allocations lie."""
    plan = command.result
    origin = _planned_origin(txn, command)
    counts = DeploymentCounts()
    if plan.deployment is not None:
        _store_deployment(txn, plan.deployment, origin, effects)
    for update in plan.deployment_updates:
        known = txn.deployments.get(update.deployment_id)
        if known is not None and known.is_active:
            set_status(txn, update, effects)
    _place(txn, plan, origin, counts, effects)
    _change(txn, command, counts, effects)
    for request in plan.claims:
        _claim(txn, request, origin)
    for deployment in counts.write(txn):
        effects.note(txn.index, "PlanResult", deployment)
    if all(evaluation.id != command.eval_id for evaluation in command.evaluations):
        txn.evaluations.touch(command.eval_id)
    store_evaluations(txn, command.evaluations, effects)
    return txn.index


def _planned_origin(txn: WriteTxn, command: ApplyPlan) -> JobOrigin:
    """Returns the origin of the job version that the plan places.

    Raises ConflictError for placements of a job that was purged meanwhile, even if a job of the
    same id was registered since: only its allocations can still be stopped.
    """
    origin, created = txn.job_versions.origin(
        command.namespace, command.job_id, command.job_version
    )
    is_planned = created and command.job_create_index in (0, created)
    if command.result.placements and not is_planned:
        raise ConflictError(
            f"cannot commit the plan of evaluation {command.eval_id!r}: version "
            f"{command.job_version} of job {command.job_id!r} is gone; evaluate the job again"
        )
    return origin or JobOrigin()


def _store_deployment(
    txn: WriteTxn, deployment: Deployment, origin: JobOrigin, effects: Effects
) -> None:
    """Store the plan's deployment; the counts of a stored one stay."""
    known = txn.deployments.get(deployment.id)
    if known is not None:
        deployment.create_index = known.create_index
        deployment.create_time_ns = known.create_time_ns
        for name, state in deployment.task_groups.items():
            before = known.task_groups.get(name)
            if before is not None:
                state.placed_allocs = before.placed_allocs
                state.healthy_allocs = before.healthy_allocs
                state.unhealthy_allocs = before.unhealthy_allocs
                state.placed_canaries = before.placed_canaries
                state.promoted = before.promoted
                state.require_progress_by = before.require_progress_by
    else:
        deployment.create_index = txn.index
        deployment.create_time_ns = deployment.create_time_ns or txn.now_ns
    deployment.commit_id = deployment.commit_id or origin.commit_id
    deployment.rollout_id = deployment.rollout_id or origin.rollout_id
    deployment.modify_index, deployment.modify_time_ns = txn.index, txn.now_ns
    txn.deployments.put(deployment)
    effects.note(txn.index, "PlanResult", deployment)


def _place(
    txn: WriteTxn,
    plan: PlanResult,
    origin: JobOrigin,
    counts: DeploymentCounts,
    effects: Effects,
) -> None:
    for placements in plan.placements:
        placements.commit_id = placements.commit_id or origin.commit_id
        placements.rollout_id = placements.rollout_id or origin.rollout_id
        txn.allocations.insert_placed(placements)
        counts.add_placements(placements)
        effects.note_allocs(txn.index, "PlanResult", placements.alloc_ids)


def _change(txn: WriteTxn, command: ApplyPlan, counts: DeploymentCounts, effects: Effects) -> None:
    """Change the stored allocations that the plan concerns, each with one write."""
    plan = command.result
    replaced = _replaced(plan.placements)
    ids = dict.fromkeys(stop.alloc_id for stop in plan.stops)
    ids |= dict.fromkeys(update.alloc_id for update in plan.updates)
    ids |= dict.fromkeys(preemption.alloc_id for preemption in plan.preemptions)
    records = txn.allocations.rows(ids | dict.fromkeys(replaced))
    providing = providing_services(records)
    versions = _StoredVersions(txn.job_versions)
    for stop in plan.stops:
        _stop(txn, records, stop)
    for preemption in plan.preemptions:
        _preempt(txn, records, preemption)
    for update in plan.updates:
        record = records.get(update.alloc_id)
        if record is not None and versions.has(record, update.job_version):
            _update(txn, record, update)
            if update.job_version is not None or not isinstance(command, ApplyPlanResult):
                record.eval_id = command.eval_id or None
    for alloc_id, successor in replaced.items():
        if alloc_id in records:
            records[alloc_id].body.next_allocation = successor
    counts.add_changes(records.values())
    txn.allocations.save(records.values())
    effects.note_allocs(txn.index, "PlanResult", list(records))
    effects.note_services(txn.index, providing, providing_services(records))


def _replaced(placements: list[Placements]) -> dict[str, str]:
    """Returns id of an allocation -> id of the new one that replaces it."""
    return {
        previous: one.alloc_ids[row]
        for one in placements
        for row, previous in one.previous_of.items()
    }


def _stop(txn: WriteTxn, records: Records, stop: AllocStop) -> None:
    record = records.get(stop.alloc_id)
    if record is None:
        return
    record.desired_status = stop.desired_status
    record.alloc_modify_index = txn.index
    body = record.body
    body.desired_description = stop.desired_description
    if stop.client_status:
        record.client_status = stop.client_status
    if stop.client_description:
        body.client_description = stop.client_description
    if stop.followup_eval_id:
        body.followup_eval_id = stop.followup_eval_id
    if stop.reschedule_tracker is not None:
        body.reschedule_tracker = stop.reschedule_tracker


def _preempt(txn: WriteTxn, records: Records, preemption: AllocPreemption) -> None:
    record = records.get(preemption.alloc_id)
    if record is None:
        return
    record.desired_status = "evict"
    record.alloc_modify_index = txn.index
    record.body.desired_description = f"Preempted by alloc ID {preemption.preempted_by}"
    record.body.preempted_by_allocation = preemption.preempted_by


class _StoredVersions:
    """The job versions that an allocation may be updated to: those of its own registration that
    are still stored. A job that was purged while its update was planned has none left."""

    def __init__(self, versions: JobVersionReads) -> None:
        self._versions = versions
        self._of_job: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def has(self, record: AllocationRow, version: int | None) -> bool:
        """`version` None: the update leaves the version as it is."""
        if version in (None, record.job_version):
            return True
        key = (record.namespace, record.job_id)
        stored = self._of_job.get(key)
        if stored is None:
            stored = self._of_job[key] = self._versions.stored_of_job(*key)
        registrations = [created for created, _ in stored if created <= record.create_index]
        return bool(registrations) and (max(registrations), version) in stored


def _update(txn: WriteTxn, record: AllocationRow, update: AllocUpdate) -> None:
    record.alloc_modify_index = txn.index
    if update.job_version is not None:
        record.job_version = update.job_version
    if update.deployment_id is not None:
        record.deployment_id = update.deployment_id
    if update.allocated_resources is not None:
        record.resources = record.body.resources = update.allocated_resources
    if update.client_status:
        record.client_status = update.client_status
    _update_body(txn, record, update)


def _update_body(txn: WriteTxn, record: AllocationRow, update: AllocUpdate) -> None:
    body = record.body
    given = {
        "desired_description": update.desired_description,
        "client_description": update.client_description or None,
        "followup_eval_id": update.followup_eval_id,
        "reschedule_tracker": update.reschedule_tracker,
        "metrics": update.metrics,
        "deployment_status": update.deployment_status,
    }
    for name, value in given.items():
        if value is not None:
            setattr(body, name, value)
    if update.clear_deployment_status:
        body.deployment_status = None
    if update.desired_transition is not None:
        body.desired_transition = merged(body.desired_transition, update.desired_transition)
    if update.record_client_status:
        now = datetime_of_ns(txn.now_ns)
        state = AllocState(field=0, value=update.record_client_status, time=now)
        body.alloc_states = [*(body.alloc_states or ()), state]


def _claim(txn: WriteTxn, request: VolumeClaimRequest, origin: JobOrigin) -> None:
    """Create the claim, or let the new allocation take over the claim of one that has ended."""
    known = txn.volume_claims.get(request.claim_id) or _orphaned(txn, request)
    if known is not None:
        claim = msgspec.structs.replace(known, alloc_id=request.alloc_id)
    else:
        claim = TaskGroupVolumeClaim(
            id=request.claim_id,
            namespace=request.namespace,
            job_id=request.job_id,
            task_group_name=request.task_group_name,
            alloc_id=request.alloc_id,
            volume_id=request.volume_id,
            volume_name=request.volume_name,
            commit_id=request.commit_id or origin.commit_id,
            rollout_id=request.rollout_id or origin.rollout_id,
            create_index=txn.index,
        )
    claim.modify_index = txn.index
    txn.volume_claims.put(claim)


def _orphaned(txn: WriteTxn, request: VolumeClaimRequest) -> TaskGroupVolumeClaim | None:
    """Returns a claim of the same group on the same volume that no live allocation holds."""
    for claim in txn.volume_claims.all(request.namespace, request.job_id):
        if (claim.task_group_name, claim.volume_id) == (
            request.task_group_name,
            request.volume_id,
        ):
            holder = txn.allocations.rows([claim.alloc_id]).get(claim.alloc_id)
            if holder is None or not holder.live:
                return claim
    return None


HANDLERS: Handlers = {
    ApplyPlan: apply_plan,
    ApplyPlanResult: apply_plan,
}
