"""Whether a set of allocations fits one node: the arithmetic of the plan applier.

No numpy here: the applier checks node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from orchgit.model.allocation import Allocation
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedResources
from orchgit.model.volume import VolumeRequest
from orchgit.scheduler.networks import NodeNetworks, PortIndex, ports_of

SINGLE_WRITER = "single-node-single-writer"
VolumesOf = Callable[[Allocation], Iterable[VolumeRequest]]


def capacity_of(node: Node) -> tuple[int, int, int]:
    """(cpu MHz, memory MB, disk MB) that jobs may use on the node."""
    resources, reserved = node.node_resources, node.reserved_resources
    return (
        resources.cpu.cpu_shares - reserved.cpu.cpu_shares,
        resources.memory.memory_mb - reserved.memory.memory_mb,
        resources.disk.disk_mb - reserved.disk.disk_mb,
    )


def node_conflict(node: Node, allocations: Sequence[Allocation], volumes_of: VolumesOf) -> str:
    """Empty when all `allocations` fit on `node` together, else the first thing that does not.

    `volumes_of` gives the volume requests of an allocation's group (none: not checked).
    """
    resources = [a.allocated_resources for a in allocations if a.allocated_resources is not None]
    return (
        _over_capacity(node, resources)
        or _port_conflict(node, allocations)
        or _device_conflict(node, resources)
        or _writer_conflict(allocations, volumes_of)
    )


def _over_capacity(node: Node, resources: Iterable[AllocatedResources]) -> str:
    cpu, memory, disk = capacity_of(node)
    cores: set[int] = set()
    for given in resources:
        total = given.total()
        cpu -= total.cpu_shares
        memory -= total.memory_mb
        disk -= total.disk_mb
        if not cores.isdisjoint(total.cores):
            return "cores"
        cores.update(total.cores)
    for name, left in (("cpu", cpu), ("memory", memory), ("disk", disk)):
        if left < 0:
            return name
    return ""


def _port_conflict(node: Node, allocations: Iterable[Allocation]) -> str:
    index: PortIndex | None = None
    for allocation in allocations:
        if allocation.allocated_resources is None:
            continue
        if index is None:
            index = PortIndex(NodeNetworks(node))
        for address, port in ports_of(allocation.allocated_resources):
            if not index.is_free(address, port):
                return (
                    "reserved alloc port collision: collision when reserving port for alloc "
                    f"{allocation.id}: [port {port} already in use]"
                )
        index.take_resources(allocation.allocated_resources)
    return "bandwidth exceeded" if index is not None and index.bandwidth_exceeded() else ""


def _device_conflict(node: Node, resources: Iterable[AllocatedResources]) -> str:
    used: set[tuple[str, str, str, str]] = set()
    for given in resources:
        for task in given.tasks.values():
            for device in task.devices or ():
                for instance in device.device_ids:
                    key = (device.vendor, device.type, device.name, instance)
                    if key in used:
                        return "device oversubscribed"
                    used.add(key)
    return ""


def _writer_conflict(allocations: Iterable[Allocation], volumes_of: VolumesOf) -> str:
    written: set[str] = set()
    for allocation in allocations:
        for request in volumes_of(allocation):
            if request.type != "host" or request.access_mode != SINGLE_WRITER:
                continue
            source = volume_source(request, allocation.name)
            if source in written:
                return "conflicting claims for host volume with single-writer"
            written.add(source)
    return ""


def volume_source(request: VolumeRequest, alloc_name: str) -> str:
    """The volume's name; `per_alloc` volumes have the allocation's `[index]` at the end."""
    return request.source + (alloc_name[alloc_name.rindex("[") :] if request.per_alloc else "")
