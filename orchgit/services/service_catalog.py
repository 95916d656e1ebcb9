"""Service registrations, derived from the allocations that run: nothing to keep in step.

Only services with provider "nomad" are listed; an allocation registers them while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import TaskGroup
from orchgit.model.service import Service
from orchgit.state.snapshot import Snapshot


def services_of_allocation(snapshot: Snapshot, allocation: Allocation) -> list[dict[str, Any]]:
    """In the form of Nomad's service registrations."""
    if allocation.client_status != ClientStatus.RUNNING or allocation.is_server_terminal:
        return []
    job = snapshot.job_of_allocation(allocation)
    group = job.group(allocation.task_group) if job else None
    if group is None:
        return []
    node = snapshot.node(allocation.node_id)
    datacenter = node.datacenter if node else ""
    return [
        _registration(allocation, owner, service, datacenter) for owner, service in _provided(group)
    ]


def services_of_job(snapshot: Snapshot, namespace: str, job_id: str) -> list[dict[str, Any]]:
    return _all_of(snapshot, snapshot.allocations_by_job(namespace, job_id))


def all_services(snapshot: Snapshot, namespace: str | None) -> list[dict[str, Any]]:
    return _all_of(snapshot, snapshot.allocations(namespace))


def _all_of(snapshot: Snapshot, allocations: Iterable[Allocation]) -> list[dict[str, Any]]:
    return [
        registration
        for allocation in allocations
        for registration in services_of_allocation(snapshot, allocation)
    ]


def _provided(group: TaskGroup) -> Iterator[tuple[str, Service]]:
    for service in group.services or ():
        if service.provider == "nomad":
            yield f"group-{group.name}", service
    for task in group.tasks:
        for service in task.services or ():
            if service.provider == "nomad":
                yield task.name, service


def _registration(
    allocation: Allocation, owner: str, service: Service, datacenter: str
) -> dict[str, Any]:
    address, port = _address(allocation, service.port_label)
    return {
        "ID": f"_nomad-task-{allocation.id}-{owner}-{service.name}-{service.port_label}",
        "ServiceName": service.name,
        "Namespace": allocation.namespace,
        "NodeID": allocation.node_id,
        "Datacenter": datacenter,
        "JobID": allocation.job_id,
        "AllocID": allocation.id,
        "Tags": service.tags or [],
        "Address": service.address or address,
        "Port": port,
        "CreateIndex": allocation.create_index,
        "ModifyIndex": allocation.modify_index,
    }


def _address(allocation: Allocation, label: str) -> tuple[str, int]:
    """Where the port with this label is reached; a number is a port itself."""
    resources = allocation.allocated_resources
    for port in (resources.shared.ports if resources else None) or ():
        if port.label == label:
            return port.host_ip, port.value
    return "", int(label) if label.isdigit() else 0
