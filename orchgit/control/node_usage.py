"""What is taken on one node, and whether something more fits. Pure arithmetic for the plan applier.

Amounts are sums, so that one node's usage stays small however many allocations it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources, NetworkResource

ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, never bound

PortUse = tuple[str, int]
DeviceUse = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ask:
    """What one allocation takes."""

    cpu_shares: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    cores: tuple[int, ...] = ()
    ports: tuple[PortUse, ...] = ()
    devices: tuple[DeviceUse, ...] = ()


def ask_of(
    resources: AllocatedResources | None, ports: Sequence[AllocatedPort] | None = None
) -> Ask:
    """The ask of an allocation with these resources; `ports` are added to those in them."""
    if resources is None:
        return Ask()
    total = resources.total()
    shared = [*(resources.shared.ports or ()), *(ports or ())]
    return Ask(
        total.cpu_shares,
        total.memory_mb,
        total.disk_mb,
        tuple(total.cores),
        tuple(_port_uses(resources, shared)),
        tuple(
            (f"{device.vendor}/{device.type}/{device.name}", instance)
            for task in resources.tasks.values()
            for device in task.devices or ()
            for instance in device.device_ids
        ),
    )


def _port_uses(resources: AllocatedResources, shared: list[AllocatedPort]) -> Iterable[PortUse]:
    for port in shared:
        if not port.ignore_collision:
            yield port.host_ip, port.value
    if not shared:
        yield from _network_ports(resources.shared.networks)
    for task in resources.tasks.values():
        yield from _network_ports(task.networks)


def _network_ports(networks: list[NetworkResource] | None) -> Iterable[PortUse]:
    for network in networks or ():
        for port in (*(network.reserved_ports or ()), *(network.dynamic_ports or ())):
            if not port.ignore_collision:
                yield network.ip, port.value


@dataclass(slots=True)
class NodeUsage:
    """`add` returns why the node cannot take it, as Nomad words it, or an empty string; a sum of
    several asks is judged by `over` once all are in."""

    cpu_shares: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    cores: set[int] = field(default_factory=set)
    ports: dict[int, set[str]] = field(default_factory=dict)
    devices: set[DeviceUse] = field(default_factory=set)

    def add(self, alloc_id: str, ask: Ask) -> str:
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

    def add_many(self, ask: Ask, count: int) -> None:
        """`count` asks without cores, ports or devices."""
        self.cpu_shares += ask.cpu_shares * count
        self.memory_mb += ask.memory_mb * count
        self.disk_mb += ask.disk_mb * count

    def over(self, node: Node) -> str:
        """The first dimension of the node that is exceeded, or an empty string."""
        has, kept = node.node_resources, node.reserved_resources
        if self.cpu_shares > has.cpu.cpu_shares - kept.cpu.cpu_shares:
            return "cpu"
        if not self.cores.issubset(_reservable_cores(node)):
            return "cores"
        if self.memory_mb > has.memory.memory_mb - kept.memory.memory_mb:
            return "memory"
        if self.disk_mb > has.disk.disk_mb - kept.disk.disk_mb:
            return "disk"
        return ""

    def copy(self) -> NodeUsage:
        return NodeUsage(
            self.cpu_shares,
            self.memory_mb,
            self.disk_mb,
            set(self.cores),
            {port: set(addresses) for port, addresses in self.ports.items()},
            set(self.devices),
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
    """What these allocations and the node's own reservations take together.

    Clashes among allocations that are already committed are not the next plan's fault.
    """
    usage = NodeUsage()
    for port in reserved_ports(node):
        usage.ports.setdefault(port, set()).add("")
    for allocation in allocations:
        usage.add(allocation.id, ask_of(allocation.allocated_resources))
    return usage


def reserved_ports(node: Node) -> Iterable[int]:
    yield from port_ranges(node.reserved_resources.networks.reserved_host_ports)
    for network in node.node_resources.node_networks or ():
        for address in network.addresses:
            yield from port_ranges(address.reserved_ports)


def port_ranges(text: str) -> Iterable[int]:
    """The ports of `22,80,8000-8010`."""
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _reservable_cores(node: Node) -> set[int]:
    reservable = node.node_resources.cpu.reservable_cpu_cores
    if reservable is None:
        reservable = list(range(node.node_resources.cpu.total_cpu_cores))
    return set(reservable) - set(node.reserved_resources.cpu.reserved_cpu_cores or ())
