"""Sums the resources in use on one node and decides whether more fits. Pure.

Amounts are sums, so that one node's usage stays small however many allocations it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources
from orchgit.scheduler.placement.fit import capacity_of
from orchgit.scheduler.placement.networks import parse_ports, ports_of

ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, never bound

PortUse = tuple[str, int]
DeviceUse = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ask:
    """The resources that one allocation takes."""

    cpu_shares: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    cores: tuple[int, ...] = ()
    ports: tuple[PortUse, ...] = ()
    devices: tuple[DeviceUse, ...] = ()


def ask_of(
    resources: AllocatedResources | None, ports: Sequence[AllocatedPort] | None = None
) -> Ask:
    """Returns the ask of an allocation with these resources and, besides theirs, these `ports`."""
    if resources is None:
        return Ask()
    total = resources.total()
    return Ask(
        total.cpu_shares,
        total.memory_mb,
        total.disk_mb,
        tuple(total.cores),
        tuple(_port_uses(resources, ports)),
        tuple(
            (f"{device.vendor}/{device.type}/{device.name}", instance)
            for task in resources.tasks.values()
            for device in task.devices or ()
            for instance in device.device_ids
        ),
    )


def _port_uses(
    resources: AllocatedResources, ports: Sequence[AllocatedPort] | None
) -> Iterable[PortUse]:
    """Returns the ports in use. `ports` of a placement replace those of the networks, which only
    repeat them."""
    if not ports:
        return ports_of(resources)
    both = (*(resources.shared.ports or ()), *ports)
    return [(port.host_ip, port.value) for port in both if not port.ignore_collision]


@dataclass(slots=True)
class NodeUsage:
    """The resources in use on one node. `add` returns why the node cannot take an ask, in Nomad's
    words, or an empty string; `over` judges the sum after several asks."""

    cpu_shares: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    cores: set[int] = field(default_factory=set)
    ports: dict[int, set[str]] = field(default_factory=dict)
    devices: set[DeviceUse] = field(default_factory=set)
    allocations: int = 0

    def add(self, alloc_id: str, ask: Ask) -> str:
        self.allocations += 1
        self.cpu_shares += ask.cpu_shares
        self.memory_mb += ask.memory_mb
        self.disk_mb += ask.disk_mb
        refusal = ""
        if ask.cores:
            refusal = self._add_cores(ask.cores)
        if ask.ports:
            refusal = refusal or self._add_ports(alloc_id, ask.ports)
        if ask.devices:
            refusal = refusal or self._add_devices(ask.devices)
        return refusal

    def over(self, node: Node) -> str:
        """Returns the first dimension in which the usage exceeds the node, or an empty string."""
        if 0 < node.node_max_allocs < self.allocations:
            return "max allocation exceeded"
        cpu_shares, memory_mb, disk_mb = capacity_of(node)
        if self.cpu_shares > cpu_shares:
            return "cpu"
        if self.cores and not self.cores.issubset(_reservable_cores(node)):
            return "cores"
        if self.memory_mb > memory_mb:
            return "memory"
        if self.disk_mb > disk_mb:
            return "disk"
        return ""

    def copy(self) -> NodeUsage:
        return NodeUsage(
            self.cpu_shares,
            self.memory_mb,
            self.disk_mb,
            set(self.cores) if self.cores else set(),
            {port: set(held) for port, held in self.ports.items()} if self.ports else {},
            set(self.devices) if self.devices else set(),
            self.allocations,
        )

    def _add_cores(self, cores: tuple[int, ...]) -> str:
        clash = not self.cores.isdisjoint(cores)
        self.cores.update(cores)
        return "cores" if clash else ""

    def _add_ports(self, alloc_id: str, ports: tuple[PortUse, ...]) -> str:
        taken = [value for address, value in ports if self._port_is_taken(address, value)]
        for address, value in ports:
            self.ports.setdefault(value, set()).add(address)
        if not taken:
            return ""
        listed = " ".join(f"port {value} already in use" for value in taken)
        return (
            "reserved alloc port collision: collision when reserving port for alloc "
            f"{alloc_id}: [{listed}]"
        )

    def _port_is_taken(self, address: str, value: int) -> bool:
        holders = self.ports.get(value)
        if not holders:
            return False
        if address in holders or address in ANY_ADDRESS:
            return True
        return any(holder in ANY_ADDRESS for holder in holders)

    def _add_devices(self, devices: tuple[DeviceUse, ...]) -> str:
        clash = not self.devices.isdisjoint(devices)
        self.devices.update(devices)
        return "device oversubscribed" if clash else ""


def usage_of(node: Node, allocations: Iterable[Allocation]) -> NodeUsage:
    """Returns the usage of these allocations and the node's own reservations.

    Clashes among allocations that are already committed are not the next plan's fault.
    """
    usage = NodeUsage()
    for port in reserved_ports(node):
        usage.ports.setdefault(port, set()).add("")
    for allocation in allocations:
        usage.add(allocation.id, ask_of(allocation.allocated_resources))
    return usage


def reserved_ports(node: Node) -> set[int]:
    reserved = parse_ports(node.reserved_resources.networks.reserved_host_ports)
    for network in node.node_resources.node_networks or ():
        for address in network.addresses:
            reserved |= parse_ports(address.reserved_ports)
    return reserved


def _reservable_cores(node: Node) -> set[int]:
    reservable = node.node_resources.cpu.reservable_cpu_cores
    if reservable is None:
        reservable = list(range(node.node_resources.cpu.total_cpu_cores))
    return set(reservable) - set(node.reserved_resources.cpu.reserved_cpu_cores or ())
