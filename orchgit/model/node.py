"""A node: what its agent found on the machine, and whether work may be placed there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.resources import NetworkResource


class NodeStatus(StrEnum):
    INITIALIZING = "initializing"
    READY = "ready"
    DOWN = "down"
    DISCONNECTED = "disconnected"


class Eligibility(StrEnum):
    ELIGIBLE = "eligible"
    INELIGIBLE = "ineligible"


class DriverInfo(Model):
    detected: bool = False
    healthy: bool = False
    health_description: str = ""
    attributes: dict[str, str] | None = None
    update_time: datetime | None = None


class ClientHostVolume(Model):
    """A host volume of a node: static (from the agent's configuration, no id) or dynamic."""

    name: str = ""
    path: str = ""
    read_only: bool = False
    id: str = ""


class NodeDeviceInstance(Model):
    id: str = ""
    healthy: bool = True
    health_description: str = ""
    locality: dict[str, object] | None = None


class NodeDevice(Model):
    vendor: str = ""
    type: str = ""
    name: str = ""
    instances: list[NodeDeviceInstance] = []
    attributes: dict[str, dict[str, object]] | None = None


class NodeCpu(Model):
    cpu_shares: int = field(default=0, name="CpuShares")
    total_cpu_cores: int = field(default=0, name="TotalCpuCores")
    reservable_cpu_cores: list[int] | None = field(default=None, name="ReservableCpuCores")


class NodeMemory(Model):
    memory_mb: int = 0


class NodeDisk(Model):
    disk_mb: int = 0


class NodeNetworkAddress(Model):
    family: str = ""
    alias: str = ""
    address: str = ""
    reserved_ports: str = ""
    gateway: str = ""


class NodeNetwork(Model):
    mode: str = ""
    device: str = ""
    mac_address: str = ""
    speed: int = 0
    addresses: list[NodeNetworkAddress] = []


class NodeResources(Model):
    cpu: NodeCpu = field(default_factory=NodeCpu, name="Cpu")
    memory: NodeMemory = field(default_factory=NodeMemory)
    disk: NodeDisk = field(default_factory=NodeDisk)
    networks: list[NetworkResource] | None = None
    node_networks: list[NodeNetwork] | None = None
    devices: list[NodeDevice] | None = None
    min_dynamic_port: int = 20000
    max_dynamic_port: int = 32000
    processors: dict[str, object] | None = None


class ReservedCpu(Model):
    cpu_shares: int = field(default=0, name="CpuShares")
    reserved_cpu_cores: list[int] | None = field(default=None, name="ReservedCpuCores")


class ReservedNetworks(Model):
    """`reserved_host_ports` is a list of ports and ranges: `22,80,8000-8010`."""

    reserved_host_ports: str = ""


class ReservedResources(Model):
    cpu: ReservedCpu = field(default_factory=ReservedCpu, name="Cpu")
    memory: NodeMemory = field(default_factory=NodeMemory)
    disk: NodeDisk = field(default_factory=NodeDisk)
    networks: ReservedNetworks = field(default_factory=ReservedNetworks)


class DrainStrategy(Model):
    deadline_ns: int = 0
    ignore_system_jobs: bool = False
    force_deadline: datetime | None = None
    started_at: datetime | None = None


class NodeEvent(Model):
    message: str = ""
    subsystem: str = ""
    details: dict[str, str] | None = None
    timestamp: datetime | None = None
    create_index: int = 0


class Node(Model):
    id: str = ""
    secret_id: str = ""
    name: str = ""
    datacenter: str = "dc1"
    node_pool: str = "default"
    node_class: str = ""
    computed_class: str = ""
    http_addr: str = ""
    tls_enabled: bool = False
    attributes: dict[str, str] = {}
    meta: dict[str, str] = {}
    links: dict[str, str] = {}
    drivers: dict[str, DriverInfo] = {}
    host_volumes: dict[str, ClientHostVolume] = {}
    host_networks: dict[str, dict[str, object]] | None = None
    csi_node_plugins: dict[str, dict[str, object]] | None = field(
        default=None, name="CSINodePlugins"
    )
    csi_controller_plugins: dict[str, dict[str, object]] | None = field(
        default=None, name="CSIControllerPlugins"
    )
    node_resources: NodeResources = field(default_factory=NodeResources)
    reserved_resources: ReservedResources = field(default_factory=ReservedResources)
    node_max_allocs: int = 0
    cgroup_parent: str = ""
    gc_volumes_on_node_gc: bool = field(default=False, name="GCVolumesOnNodeGC")
    identity_signing_key_id: str = ""

    status: str = NodeStatus.INITIALIZING
    status_description: str = ""
    status_updated_at: int = 0
    """Unix seconds, as Nomad's API has it."""
    scheduling_eligibility: str = Eligibility.ELIGIBLE
    drain: bool = False
    drain_strategy: DrainStrategy | None = None
    last_drain: dict[str, object] | None = None
    events: list[NodeEvent] = []
    last_missed_heartbeat_index: int = 0
    last_alloc_update_index: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def is_untainted(self) -> bool:
        """Whether allocations may keep running here: the node is connected and does not drain."""
        away = self.status in (NodeStatus.DOWN, NodeStatus.DISCONNECTED)
        return not away and self.drain_strategy is None

    @property
    def is_ready(self) -> bool:
        """Whether new allocations may be placed here."""
        return (
            self.status == NodeStatus.READY
            and self.drain_strategy is None
            and self.scheduling_eligibility == Eligibility.ELIGIBLE
        )


class NodePool(Model):
    name: str = ""
    description: str = ""
    meta: dict[str, str] | None = None
    scheduler_configuration: dict[str, object] | None = None
    node_identity_ttl_ns: int = 0
    create_index: int = 0
    modify_index: int = 0


class Namespace(Model):
    name: str = ""
    description: str = ""
    quota: str = ""
    capabilities: dict[str, object] | None = None
    meta: dict[str, str] | None = None
    create_index: int = 0
    modify_index: int = 0
