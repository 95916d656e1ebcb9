"""The node as the servers see it: config, fingerprint, drivers and volumes put together."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.config import AgentConfig
from agent.csi.plugins import CONTROLLER, NODE, CsiPlugins
from agent.fingerprint.drivers import driver_attributes
from agent.fingerprint.node import Fingerprint
from orchgit.model.node import (
    ClientHostVolume,
    DriverInfo,
    Eligibility,
    Node,
    NodeDisk,
    NodeMemory,
    ReservedCpu,
    ReservedNetworks,
    ReservedResources,
)
from orchgit.model.volume import HostVolume


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """`secret_id` proves to the servers that a stream comes from this node."""

    node_id: str
    secret_id: str


_ENVOY = "docker.io/envoyproxy/envoy:v${NOMAD_envoy_version}"
DEFAULT_META = {
    "connect.gateway_image": _ENVOY,
    "connect.log_level": "info",
    "connect.proxy_concurrency": "1",
    "connect.sidecar_image": _ENVOY,
    "connect.transparent_proxy.default_outbound_port": "15001",
    "connect.transparent_proxy.default_uid": "101",
}
"""What job files with `connect` blocks name, unless the configuration says otherwise."""


def build_node(
    config: AgentConfig,
    identity: NodeIdentity,
    found: Fingerprint,
    drivers: Mapping[str, DriverInfo],
    volumes: Iterable[HostVolume],
    volume_plugins: Mapping[str, str],
    csi: CsiPlugins | None = None,
) -> Node:
    """`volume_plugins`: the attributes of the plugins that make host volumes."""
    return Node(
        id=identity.node_id,
        secret_id=identity.secret_id,
        name=config.node_name or platform.node(),
        datacenter=config.datacenter,
        node_pool=config.node_pool,
        node_class=config.node_class,
        http_addr=config.http_addr,
        tls_enabled=config.http_tls is not None,
        attributes={**found.attributes, **driver_attributes(drivers), **volume_plugins},
        meta={**DEFAULT_META, **config.meta},
        links=found.links,
        drivers=dict(drivers),
        host_volumes=_host_volumes(config, volumes),
        host_networks=_host_networks(config),
        csi_node_plugins=csi.described(NODE) if csi is not None else None,
        csi_controller_plugins=csi.described(CONTROLLER) if csi is not None else None,
        scheduling_eligibility=(
            Eligibility.INELIGIBLE if config.default_ineligible else Eligibility.ELIGIBLE
        ),
        node_resources=found.resources,
        reserved_resources=ReservedResources(
            cpu=ReservedCpu(cpu_shares=config.reserved.cpu_mhz),
            memory=NodeMemory(memory_mb=config.reserved.memory_mb),
            disk=NodeDisk(disk_mb=config.reserved.disk_mb),
            networks=ReservedNetworks(reserved_host_ports=config.reserved.reserved_ports),
        ),
    )


def _host_volumes(
    config: AgentConfig, volumes: Iterable[HostVolume]
) -> dict[str, ClientHostVolume]:
    """The volumes of the config and those made at run time; the config wins where names meet."""
    made = {
        volume.name: ClientHostVolume(name=volume.name, path=volume.host_path, id=volume.id)
        for volume in volumes
    }
    configured = {
        name: ClientHostVolume(name=name, path=volume.path, read_only=volume.read_only)
        for name, volume in config.host_volumes.items()
    }
    return {**made, **configured}


def _host_networks(config: AgentConfig) -> dict[str, dict[str, object]] | None:
    """The addresses with names, as the node's configuration says them."""
    found: dict[str, dict[str, object]] = {
        name: {
            "Name": name,
            "CIDR": each.cidr,
            "Interface": each.interface,
            "ReservedPorts": each.reserved_ports,
        }
        for name, each in config.host_networks.items()
    }
    return found or None
