"""Writes what becomes of existing allocations into a new plan."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.job import Job
from orchgit.model.node import NodeStatus
from orchgit.model.plan import AllocStop, AllocUpdate, Plan
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.reconcile.changes import UNKNOWN, JobChanges


def new_plan(inputs: SchedulingInputs, job: Job | None) -> Plan:
    evaluation = inputs.evaluation
    return Plan(
        eval_id=evaluation.id,
        namespace=evaluation.namespace,
        job_id=evaluation.job_id,
        job_version=job.version if job is not None else 0,
        job_modify_index=job.job_modify_index if job is not None else 0,
        job_create_index=job.create_index if job is not None else 0,
        priority=evaluation.priority,
        all_at_once=job.all_at_once if job is not None else False,
        snapshot_index=inputs.view.index,
    )


def write_changes(plan: Plan, changes: JobChanges, stacks: Stacks | None) -> None:
    """Writes stops and updates of existing allocations, but for updates in place."""
    for stop in changes.stops:
        allocation = stop.allocation
        plan.stops.append(
            AllocStop(
                alloc_id=allocation.id,
                node_id=allocation.node_id,
                desired_description=stop.description,
                client_status=stop.client_status,
                followup_eval_id=stop.followup_eval_id,
            )
        )
        if stacks is not None:
            stacks.stop(allocation)
    for entry in changes.disconnects:
        plan.updates.append(
            AllocUpdate(
                alloc_id=entry.allocation.id,
                node_id=entry.allocation.node_id,
                client_status=ClientStatus.UNKNOWN,
                client_description=UNKNOWN,
                record_client_status=ClientStatus.UNKNOWN,
                followup_eval_id=entry.followup_eval_id or None,
            )
        )
        if stacks is not None:
            stacks.claims.held_by.discard(entry.allocation.id)
    for allocation in changes.reconnects:
        plan.updates.append(
            AllocUpdate(
                alloc_id=allocation.id,
                node_id=allocation.node_id,
                record_client_status=allocation.client_status,
            )
        )
    disconnected = {entry.allocation.id for entry in changes.disconnects}
    for allocation, eval_id in changes.followup_of.values():
        if allocation.id not in disconnected:
            plan.updates.append(
                AllocUpdate(
                    alloc_id=allocation.id,
                    node_id=allocation.node_id,
                    followup_eval_id=eval_id,
                )
            )
            if stacks is not None:
                stacks.proposed.keep_place(allocation)


def write_in_place(
    plan: Plan,
    allocations: Sequence[Allocation],
    job: Job | None,
    deployment_id: str,
    view: ClusterView,
) -> None:
    """`deployment_id`: the job's latest deployment, whatever has become of it. The allocations
    belong to it from now on."""
    if job is None or not allocations:
        return
    known = {update.alloc_id: update for update in plan.updates}
    for allocation in allocations:
        update = known.get(allocation.id)
        if update is None:
            update = AllocUpdate(alloc_id=allocation.id, node_id=allocation.node_id)
            plan.updates.append(update)
        changed = allocation.deployment_id != deployment_id
        node = view.node(allocation.node_id)
        if node is not None and node.status != NodeStatus.READY:
            update.client_status = ClientStatus.UNKNOWN
        update.job_version = job.version
        update.deployment_id = deployment_id if changed else None
        update.clear_deployment_status = changed and allocation.deployment_status is not None
