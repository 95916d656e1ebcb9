"""Computes, once per group, the resources that one allocation needs."""

from __future__ import annotations

from functools import cached_property

from msgspec.structs import asdict, replace

from orchgit.model.group import TaskGroup
from orchgit.model.quota import QuotaAmounts, amounts_of
from orchgit.model.resources import (
    AllocatedCpu,
    AllocatedMemory,
    AllocatedResources,
    AllocatedShared,
    AllocatedTask,
    NetworkResource,
    RequestedDevice,
)
from orchgit.model.task import Task
from orchgit.scheduler.ranking.cores import NONE


class RequiredResources:
    """The resources that one allocation of a group needs. `resources` is equal for all allocations;
    ports, cores and devices are added per node."""

    def __init__(self, group: TaskGroup, *, oversubscription: bool, numa: bool = False) -> None:
        """Computes the resources; `numa` says whether the cluster follows the NUMA settings of
        tasks."""
        self.group = group
        self.numa: dict[str, str] = {
            task.name: task.resources.numa.affinity if task.resources.numa is not None else NONE
            for task in group.tasks
            if numa and task.resources.cores
        }
        self.near: dict[str, frozenset[str]] = {
            task.name: frozenset(task.resources.numa.devices or ())
            for task in group.tasks
            if task.name in self.numa and task.resources.numa is not None
        }
        """Task -> the names of the devices that it requires on the NUMA node of its cores."""
        self.network: NetworkResource | None = group.networks[0] if group.networks else None
        self.cores = {
            task.name: task.resources.cores for task in group.tasks if task.resources.cores
        }
        self.task_networks = {
            task.name: task.resources.networks[0] for task in group.tasks if task.resources.networks
        }
        self.devices: list[tuple[str, RequestedDevice]] = [
            (task.name, ask) for task in group.tasks for ask in task.resources.devices or ()
        ]
        self.resources = AllocatedResources(
            tasks={task.name: _allocated(task, oversubscription) for task in group.tasks},
            task_lifecycles={task.name: _lifecycle(task) for task in group.tasks},
            shared=AllocatedShared(
                disk_mb=group.ephemeral_disk.size_mb, networks=group.networks or None
            ),
        )
        total = self.resources.total()
        self.cpu, self.memory, self.disk = total.cpu_shares, total.memory_mb, total.disk_mb

    @cached_property
    def quota_amounts(self) -> QuotaAmounts:
        """What one allocation takes of a quota."""
        return amounts_of(self.resources, cores=sum(self.cores.values()))

    @property
    def has_ports(self) -> bool:
        network = self.network
        return network is not None and bool(network.reserved_ports or network.dynamic_ports)

    @property
    def is_plain(self) -> bool:
        """Whether every row gives the same resources, apart from ports."""
        return not (self.cores or self.devices or self.task_networks)

    def with_cores(self, cores: dict[str, tuple[list[int], int]]) -> AllocatedResources:
        """Returns the resources when each task in `cores` gets these core ids and MHz."""
        tasks = dict(self.resources.tasks)
        for name, (ids, mhz) in cores.items():
            tasks[name] = replace(tasks[name], cpu=AllocatedCpu(cpu_shares=mhz, reserved_cores=ids))
        return replace(self.resources, tasks=tasks)


def _allocated(task: Task, oversubscription: bool) -> AllocatedTask:
    resources = task.resources
    return AllocatedTask(
        cpu=AllocatedCpu(cpu_shares=0 if resources.cores else resources.cpu),
        memory=AllocatedMemory(
            memory_mb=resources.memory_mb + resources.secrets_mb,
            memory_max_mb=resources.memory_max_mb if oversubscription else 0,
        ),
    )


def _lifecycle(task: Task) -> dict[str, object] | None:
    if task.lifecycle is None:
        return None
    values = asdict(task.lifecycle)
    return {"Hook": values["hook"], "Sidecar": values["sidecar"]}
