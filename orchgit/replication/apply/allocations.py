"""Reports of agents on their allocations, and transitions that the servers ask of allocations."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from orchgit.errors import NotFoundError
from orchgit.model.allocation import (
    AllocDeploymentStatus,
    ClientStatus,
    DesiredTransition,
    status_after_report,
)
from orchgit.model.base import datetime_of_ns
from orchgit.replication.apply.deployment_counts import DeploymentCounts
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.allocations import (
    AllocClientUpdate,
    AllocStatusUpdate,
    UpdateAllocs,
    UpdateAllocsFromClient,
    UpdateAllocTransitions,
)
from orchgit.replication.events import Effects, Providers
from orchgit.state.tables.allocation_rows import CLIENT_TERMINAL, AllocationRow, AllocBody
from orchgit.state.transaction import WriteTxn


def update_allocs_from_client(
    txn: WriteTxn, command: UpdateAllocsFromClient, effects: Effects
) -> None:
    """Skips allocations that are gone or on another node, and reports that say nothing new."""
    if not txn.nodes.stamp_alloc_update(command.node_id):
        raise NotFoundError(
            f"cannot take reports of node {command.node_id!r}: it is not registered; register first"
        )
    records = txn.allocations.rows(update.alloc_id for update in command.updates)
    changed: dict[str, AllocationRow] = {}
    providing = providing_services(records)
    for update in command.updates:
        record = records.get(update.alloc_id)
        if record is None or record.node_id != command.node_id:
            continue
        if _merge(txn, record, update):
            changed[record.id] = record
    _save(txn, list(changed.values()), "AllocationUpdated", effects)
    effects.note_services(txn.index, providing, providing_services(records))
    if any(record.client_status in CLIENT_TERMINAL for record in changed.values()):
        effects.freed_nodes.add(command.node_id)
    store_evaluations(txn, command.evaluations, effects, "AllocationUpdated")


def providing_services(records: Mapping[str, AllocationRow]) -> Providers:
    """Returns whose services are registered: those of the groups of allocations that run, and are
    to run on, and those of their running tasks."""
    found: Providers = {}
    for id_, record in records.items():
        if record.client_status == ClientStatus.RUNNING and record.desired_status == "run":
            found[id_, ""] = None
            addresses = record.body.driver_addresses or {}
            for name, state in (record.body.task_states or {}).items():
                if state.state == "running":
                    found[id_, name] = addresses.get(name)
    return found


def _save(txn: WriteTxn, records: list[AllocationRow], type_: str, effects: Effects) -> None:
    counts = DeploymentCounts()
    counts.add_changes(records)
    txn.allocations.save(records)
    for deployment in counts.write(txn):
        effects.note(txn.index, "DeploymentAllocHealth", deployment)
    effects.note_allocs(txn.index, type_, [record.id for record in records])


def _merge(txn: WriteTxn, record: AllocationRow, update: AllocStatusUpdate) -> bool:
    """Merge the report into the record; returns False if it says nothing new."""
    before = (record.client_status, msgspec.structs.replace(record.body))
    body = record.body
    record.client_status = status_after_report(record.client_status, update.client_status)
    body.client_description = update.client_description
    if update.task_states is not None:
        body.task_states = update.task_states
    if update.network_status is not None:
        body.network_status = update.network_status
    if isinstance(update, AllocClientUpdate) and update.driver_addresses is not None:
        ended = {
            name: address
            for name, address in (body.driver_addresses or {}).items()
            if (state := (body.task_states or {}).get(name)) and state.state != "running"
        }
        body.driver_addresses = {**ended, **update.driver_addresses} or None
    if update.deployment_healthy is not None:
        at_ns = update.deployment_healthy_at_ns or txn.now_ns
        set_health(txn, body, update.deployment_healthy, at_ns)
    return before != (record.client_status, body)


def set_health(txn: WriteTxn, body: AllocBody, healthy: bool, at_ns: int) -> None:
    """Set the allocation's health in its deployment, unless it is the same already."""
    known = body.deployment_status or AllocDeploymentStatus()
    if known.healthy == healthy:
        return
    body.deployment_status = AllocDeploymentStatus(
        healthy=healthy,
        timestamp=datetime_of_ns(at_ns),
        canary=known.canary,
        modify_index=txn.index,
    )


def update_alloc_transitions(
    txn: WriteTxn, command: UpdateAllocTransitions, effects: Effects
) -> None:
    records = txn.allocations.rows(command.transitions)
    for alloc_id in command.transitions:
        if alloc_id not in records:
            raise NotFoundError(f"cannot change allocation {alloc_id!r}: there is no such")
    for record in records.values():
        wanted = command.transitions[record.id]
        record.body.desired_transition = merged(record.body.desired_transition, wanted)
    txn.allocations.save(records.values())
    effects.note_allocs(txn.index, "AllocationUpdateDesiredStatus", list(records))
    store_evaluations(txn, command.evaluations, effects, "AllocationUpdateDesiredStatus")


def merged(known: DesiredTransition | None, wanted: DesiredTransition) -> DesiredTransition:
    """Returns `known` changed by `wanted`; fields that are None in `wanted` stay as they are."""
    given = msgspec.structs.asdict(wanted).items()
    changes = {name: value for name, value in given if value is not None}
    return msgspec.structs.replace(known or DesiredTransition(), **changes)


HANDLERS: Handlers = {
    UpdateAllocsFromClient: update_allocs_from_client,
    UpdateAllocs: update_allocs_from_client,
    UpdateAllocTransitions: update_alloc_transitions,
}
