"""Service registrations, derived from the running allocations, so that nothing can get out of step.

Only services with provider "nomad" are listed; an allocation registers them while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.runtime_variables import service_interpolator
from orchgit.model.service import Service
from orchgit.model.service_addresses import Whereabouts
from orchgit.model.service_names import interpolated_service, registered_tags
from orchgit.model.task import Task
from orchgit.state.snapshot import StateReads


def services_of_allocation(snapshot: StateReads, allocation: Allocation) -> list[dict[str, Any]]:
    """Returns what the allocation registers now; nothing unless it runs, and is to run on."""
    if allocation.client_status != ClientStatus.RUNNING or allocation.is_server_terminal:
        return []
    return registrations_of(snapshot, allocation)


def registrations_of(snapshot: StateReads, allocation: Allocation) -> list[dict[str, Any]]:
    """Returns what the allocation registers while it runs, in the form of Nomad's service
    registrations: a service whose address mode gives no address is left out."""
    job = snapshot.job_versions.of_allocation(allocation)
    group = job.group(allocation.task_group) if job else None
    if job is None or group is None:
        return []
    node = snapshot.nodes.get(allocation.node_id) or Node(id=allocation.node_id, datacenter="")
    found = (
        _registration(allocation, owner, service, node)
        for owner, service in _provided(job, group, allocation, node)
    )
    return [registration for registration in found if registration["Address"]]


def services_of_job(snapshot: StateReads, namespace: str, job_id: str) -> list[dict[str, Any]]:
    return _all_of(snapshot, snapshot.allocations.of_job(namespace, job_id))


def all_services(snapshot: StateReads, namespace: str | None) -> list[dict[str, Any]]:
    return _all_of(snapshot, snapshot.allocations.all(namespace))


def _all_of(snapshot: StateReads, allocations: Iterable[Allocation]) -> list[dict[str, Any]]:
    return [
        registration
        for allocation in allocations
        for registration in services_of_allocation(snapshot, allocation)
    ]


def _provided(
    job: Job, group: TaskGroup, allocation: Allocation, node: Node
) -> Iterator[tuple[str, Service]]:
    """Yields (owner, service with its references replaced as the node sees them)."""
    owners: list[tuple[str, Task | None, list[Service] | None]] = [
        (f"group-{group.name}", None, group.services),
        *((task.name, task, task.services) for task in group.tasks),
    ]
    for owner, task, services in owners:
        provided = [service for service in services or () if service.provider == "nomad"]
        if provided:
            interpolate = service_interpolator(job, group, task, allocation, node)
            for service in provided:
                yield owner, interpolated_service(service, interpolate)


def _registration(
    allocation: Allocation, owner: str, service: Service, node: Node
) -> dict[str, Any]:
    address, port = Whereabouts(allocation, node, allocation.network_status).of_service(service)
    return {
        "ID": f"_nomad-task-{allocation.id}-{owner}-{service.name}-{service.port_label}",
        "ServiceName": service.name,
        "Namespace": allocation.namespace,
        "NodeID": allocation.node_id,
        "Datacenter": node.datacenter,
        "JobID": allocation.job_id,
        "AllocID": allocation.id,
        "Tags": registered_tags(service, allocation),
        "Address": address,
        "Port": port,
        "CreateIndex": allocation.create_index,
        "ModifyIndex": allocation.modify_index,
    }
