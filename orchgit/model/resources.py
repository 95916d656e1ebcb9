"""The resources that a task asks for, and those that an allocation gets."""

from __future__ import annotations

import msgspec
from msgspec import field

from orchgit.model.base import Model
from orchgit.model.constraint import Affinity, Constraint


class Port(Model):
    label: str = ""
    value: int = 0
    to: int = 0
    host_network: str = ""
    ignore_collision: bool = False


class DNSConfig(Model):
    servers: list[str] | None = None
    searches: list[str] | None = None
    options: list[str] | None = None


class NetworkResource(Model):
    """The `network` block of a group, or the network of an allocation."""

    mode: str = ""
    device: str = ""
    cidr: str = ""
    ip: str = ""
    hostname: str = ""
    mbits: int | None = field(default=None, name="MBits")
    dns: DNSConfig | None = None
    cni: dict[str, object] | None = None
    reserved_ports: list[Port] | None = None
    dynamic_ports: list[Port] | None = None


class RequestedDevice(Model):
    """`name` is `type`, `vendor/type` or `vendor/type/model`."""

    name: str = ""
    count: int = 1
    constraints: list[Constraint] | None = None
    affinities: list[Affinity] | None = None


class NUMA(Model):
    affinity: str = "none"
    devices: list[str] | None = None


class Resources(Model):
    """A task's `resources` block."""

    cpu: int = 100
    cores: int = 0
    memory_mb: int = 300
    memory_max_mb: int = 0
    disk_mb: int = 0
    iops: int = 0
    secrets_mb: int = 0
    numa: NUMA | None = None
    networks: list[NetworkResource] | None = None
    devices: list[RequestedDevice] | None = None


class AllocatedCpu(Model):
    cpu_shares: int = field(default=0, name="CpuShares")
    reserved_cores: list[int] | None = None


class AllocatedMemory(Model):
    memory_mb: int = 0
    memory_max_mb: int = 0


class AllocatedDevice(Model):
    vendor: str = ""
    type: str = ""
    name: str = ""
    device_ids: list[str] = []


class AllocatedTask(Model):
    cpu: AllocatedCpu = field(default_factory=AllocatedCpu, name="Cpu")
    memory: AllocatedMemory = field(default_factory=AllocatedMemory)
    networks: list[NetworkResource] | None = None
    devices: list[AllocatedDevice] | None = None


class AllocatedPort(Model):
    label: str = ""
    value: int = 0
    to: int = 0
    host_ip: str = ""
    ignore_collision: bool = False


class AllocatedShared(Model):
    disk_mb: int = 0
    networks: list[NetworkResource] | None = None
    ports: list[AllocatedPort] | None = None


class AllocatedResources(Model):
    tasks: dict[str, AllocatedTask] = {}
    task_lifecycles: dict[str, dict[str, object] | None] = {}
    shared: AllocatedShared = field(default_factory=AllocatedShared)

    def total(self) -> ResourceTotals:
        """Returns what the allocation uses of its node: tasks that never run together share.

        Main and poststart tasks and prestart sidecars run together; the other prestart tasks run
        before them, poststop tasks after. Reserved cores are a task's own for as long as the
        allocation is there, so what they are worth is never shared.
        """
        phases = [ResourceTotals(), ResourceTotals(), ResourceTotals()]
        cores: list[int] = []
        reserved_shares = 0
        for name, task in self.tasks.items():
            shares = task.cpu.cpu_shares
            if task.cpu.reserved_cores:
                cores.extend(task.cpu.reserved_cores)
                reserved_shares += shares
                shares = 0
            for phase in _phases_of(self.task_lifecycles.get(name)):
                phases[phase].add(shares, task.memory)
        return ResourceTotals(
            cpu_shares=reserved_shares + max(phase.cpu_shares for phase in phases),
            memory_mb=max(phase.memory_mb for phase in phases),
            memory_max_mb=max(phase.memory_max_mb for phase in phases),
            disk_mb=self.shared.disk_mb,
            cores=sorted(cores),
        )

    def with_ports(self, ports: list[AllocatedPort]) -> AllocatedResources:
        """Returns a copy with these ports, also in its group networks (by label)."""
        networks = self.shared.networks
        if networks:
            networks = [_with_values(network, ports) for network in networks]
        shared = msgspec.structs.replace(self.shared, ports=ports, networks=networks)
        return msgspec.structs.replace(self, shared=shared)


class ResourceTotals(Model):
    """What one allocation uses of its node."""

    cpu_shares: int = 0
    memory_mb: int = 0
    memory_max_mb: int = 0
    disk_mb: int = 0
    cores: list[int] = []

    def add(self, cpu_shares: int, memory: AllocatedMemory) -> None:
        self.cpu_shares += cpu_shares
        self.memory_mb += memory.memory_mb
        self.memory_max_mb += memory.memory_max_mb or memory.memory_mb


def _with_values(network: NetworkResource, ports: list[AllocatedPort]) -> NetworkResource:
    """Returns the network with its ports' values. Its address is that of a port that could have any
    number: a fixed number may be free on another address of the node only."""
    by_label = {port.label: port for port in ports}

    def given(asked: list[Port] | None) -> list[Port] | None:
        return asked and [
            msgspec.structs.replace(
                port, value=by_label[port.label].value, to=by_label[port.label].to
            )
            if port.label in by_label
            else port
            for port in asked
        ]

    dynamic = [
        by_label[each.label] for each in network.dynamic_ports or () if each.label in by_label
    ]
    return msgspec.structs.replace(
        network,
        ip=next((each.host_ip for each in (*dynamic, *ports)), network.ip),
        reserved_ports=given(network.reserved_ports),
        dynamic_ports=given(network.dynamic_ports),
    )


_BEFORE, _MAIN, _AFTER = range(3)


def _phases_of(lifecycle: dict[str, object] | None) -> tuple[int, ...]:
    hook = (lifecycle or {}).get("Hook")
    if hook == "prestart":
        return (_BEFORE, _MAIN) if (lifecycle or {}).get("Sidecar") else (_BEFORE,)
    return (_AFTER,) if hook == "poststop" else (_MAIN,)
