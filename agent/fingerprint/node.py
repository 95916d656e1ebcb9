"""The fingerprint of the node without its drivers: processors, memory, disk, network, devices."""

from __future__ import annotations

from pathlib import Path

import msgspec

from agent.devices.registry import Devices
from agent.fingerprint import cpu, group_networks, host, memory, network, storage, topology
from agent.networks.config import GroupNetworkConfig
from orchgit.model.node import NodeCpu, NodeDisk, NodeMemory, NodeResources


class FingerprintConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration may set instead of what is found; 0 and "" mean: as found."""

    data_dir: Path
    network_interface: str = ""
    host_networks: tuple[network.HostNetwork, ...] = ()
    network_speed_mbits: int = 0
    preferred_address_family: str = ""
    group_networks: GroupNetworkConfig = GroupNetworkConfig()
    cpu_total_compute_mhz: int = 0
    memory_total_mb: int = 0
    disk_total_mb: int = 0
    disk_free_mb: int = 0
    min_dynamic_port: int = 20000
    max_dynamic_port: int = 32000


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    attributes: dict[str, str]
    resources: NodeResources
    links: dict[str, str] = {}


def fingerprint_node(
    config: FingerprintConfig, cgroup_mode: str, plugins: Devices | None = None
) -> Fingerprint:
    """The node without its drivers. Reads only; never fails for a file that is not there."""
    processors = cpu.read(total_compute_mhz=config.cpu_total_compute_mhz)
    ram = memory.read(total_mb=config.memory_total_mb)
    disk = storage.read(config.data_dir, config.disk_total_mb, config.disk_free_mb)
    net = network.read(
        config.network_interface, config.network_speed_mbits, config.preferred_address_family
    )
    groups = group_networks.read(config.group_networks)
    devices = plugins.fingerprint() if plugins is not None else []
    buses = [
        str(bus)
        for device in devices
        for instance in device.instances
        if (bus := (instance.locality or {}).get("PciBusID"))
    ]
    numa = topology.read(processors.total_compute_mhz // processors.cores, buses)
    return Fingerprint(
        attributes={
            **host.attributes(),
            **processors.attributes(),
            **ram.attributes(),
            **disk.attributes(),
            **net.attributes(),
            **groups.attributes,
            "os.cgroups.version": {"v2": "2", "none": ""}.get(cgroup_mode, "1"),
        },
        resources=NodeResources(
            cpu=NodeCpu(
                cpu_shares=processors.total_compute_mhz,
                total_cpu_cores=processors.cores,
                reservable_cpu_cores=list(range(processors.cores)),
            ),
            memory=NodeMemory(memory_mb=ram.total_mb),
            disk=NodeDisk(disk_mb=disk.free_mb),
            networks=[*net.resources(), *groups.networks],
            node_networks=[*net.node_networks(config.host_networks), *groups.node_networks],
            devices=devices or None,
            processors={"Topology": numa} if numa is not None else None,
            min_dynamic_port=config.min_dynamic_port,
            max_dynamic_port=config.max_dynamic_port,
        ),
    )
