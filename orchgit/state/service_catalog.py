"""Service registrations, derived from the running allocations, so that nothing can get out of step.

Only services with provider "nomad" are listed; an allocation registers them while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Owners:
    """The jobs and nodes of allocations, read once."""

    snapshot: StateReads
    jobs: dict[tuple[str, str, int, int], Job | None] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)

    def job(self, allocation: Allocation) -> Job | None:
        # A version's number may come again after a purge, but not at the same index.
        key = (
            allocation.namespace,
            allocation.job_id,
            allocation.job_version,
            allocation.create_index,
        )
        if key not in self.jobs:
            self.jobs[key] = self.snapshot.job_versions.of_allocation(allocation)
        return self.jobs[key]

    def node(self, node_id: str) -> Node:
        if node_id not in self.nodes:
            found = self.snapshot.nodes.get(node_id)
            self.nodes[node_id] = found or Node(id=node_id, datacenter="")
        return self.nodes[node_id]


def services_of_allocation(snapshot: StateReads, allocation: Allocation) -> list[dict[str, Any]]:
    """Returns what the allocation registers now: nothing unless it runs, and is to run on; of its
    tasks, those that run."""
    return _all_of(_Owners(snapshot), [allocation])


def registrations_of(
    snapshot: StateReads, tasks: Mapping[str, Collection[str]]
) -> Iterator[tuple[Allocation, dict[str, Any]]]:
    """Yields each allocation with what it registers while it runs, in the form of Nomad's service
    registrations: the services of those tasks that are given for it ("" is its group). A service
    whose address mode gives no address is left out."""
    owners = _Owners(snapshot)
    for allocation in snapshot.allocations.get_many(tasks):
        counts = tasks[allocation.id].__contains__
        for registration in _registrations(owners, allocation, counts):
            yield allocation, registration


def services_of_job(snapshot: StateReads, namespace: str, job_id: str) -> list[dict[str, Any]]:
    return _all_of(_Owners(snapshot), snapshot.allocations.of_job(namespace, job_id))


def all_services(
    snapshot: StateReads, namespace: str | None, name: str | None = None
) -> list[dict[str, Any]]:
    """Returns the services of a namespace, None is all; only those of that name if one is given.

    Reads the allocations of those jobs alone that may have such services.
    """
    owners = _Owners(snapshot)
    found = []
    for key, names in snapshot.job_versions.running_with_services(namespace).items():
        if name is None or name in names or any("${" in each for each in names):
            found += _all_of(owners, snapshot.allocations.of_version(*key))
    found.sort(key=lambda each: str(each["AllocID"]))
    return [each for each in found if name in (None, each["ServiceName"])]


def _all_of(owners: _Owners, allocations: Iterable[Allocation]) -> list[dict[str, Any]]:
    return [
        registration
        for allocation in allocations
        if allocation.client_status == ClientStatus.RUNNING and not allocation.is_server_terminal
        for registration in _registrations(owners, allocation, allocation.runs_task)
    ]


def _registrations(
    owners: _Owners, allocation: Allocation, counts: Callable[[str], bool]
) -> list[dict[str, Any]]:
    job = owners.job(allocation)
    group = job.group(allocation.task_group) if job else None
    if job is None or group is None:
        return []
    node = owners.node(allocation.node_id)
    found = (
        _registration(allocation, owner, service, node)
        for owner, service in _provided(job, group, allocation, node)
        if counts(owner)
    )
    return [registration for registration in found if registration["Address"]]


def _provided(
    job: Job, group: TaskGroup, allocation: Allocation, node: Node
) -> Iterator[tuple[str, Service]]:
    """Yields (owner, service with its references replaced as the node sees them)."""
    owners: list[tuple[str, Task | None, list[Service] | None]] = [
        ("", None, group.services),
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
    driver = (allocation.driver_addresses or {}).get(owner)
    places = Whereabouts(allocation, node, allocation.network_status, driver)
    address, port = places.of_service(service)
    owner = owner or f"group-{allocation.task_group}"
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
