"""The description of the node that servers get: made anew after each change of what it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from agent.config import AgentConfig
from agent.csi.plugins import CsiPlugins
from agent.fingerprint.network import HostNetwork
from agent.fingerprint.node import Fingerprint, FingerprintConfig
from agent.node.facts import NodeFacts
from agent.node.host_volumes import DynamicHostVolumes
from agent.node.registration import build_node
from agent.node.volume_plugins import VolumePlugins
from orchgit.model.node import DriverInfo, Node, NodeDevice


class NodeDescription:
    """`volumes`, `volume_plugins` and `csi` tell of themselves. `tell` is called at each change."""

    def __init__(
        self,
        config: AgentConfig,
        facts: NodeFacts,
        volumes: DynamicHostVolumes,
        volume_plugins: VolumePlugins,
        csi: CsiPlugins,
        tell: Callable[[], None],
    ) -> None:
        self._config = config
        self._facts = facts
        self._volumes = volumes
        self._volume_plugins = volume_plugins
        self._csi = csi
        self._tell = tell
        self._fingerprint: Fingerprint
        self._drivers: Mapping[str, DriverInfo] = {}
        self._integrations: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
        self._node: Node | None = None

    def node(self) -> Node:
        if self._node is None:
            self._node = build_node(
                self._config,
                self._facts.identity,
                self._fingerprint,
                self._drivers,
                self._volumes,
                self._volume_plugins.attributes(),
                self._csi,
            )
            for attributes, links in self._integrations.values():
                self._node.attributes.update(attributes)
                self._node.links.update(links)
            for key, value in self._facts.meta.items():
                if value is None:
                    self._node.meta.pop(key, None)
                else:
                    self._node.meta[key] = value
        return self._node

    def changed(self) -> None:
        """What a part tells of itself has changed."""
        self._node = None
        self._tell()

    def found(self, fingerprint: Fingerprint, drivers: Mapping[str, DriverInfo]) -> None:
        """Takes what was measured before the first description."""
        self._fingerprint, self._drivers = fingerprint, drivers

    def drivers_changed(self, drivers: Mapping[str, DriverInfo]) -> None:
        self._drivers = drivers
        self.changed()

    def devices_changed(self, devices: list[NodeDevice]) -> None:
        resources = msgspec.structs.replace(self._fingerprint.resources, devices=devices or None)
        self._fingerprint = msgspec.structs.replace(self._fingerprint, resources=resources)
        self.changed()

    def integration_changed(
        self, name: str, attributes: dict[str, str], links: dict[str, str]
    ) -> None:
        """Consul or Vault, as `name` says, is found, lost or another version."""
        self._integrations[name] = (attributes, links)
        self.changed()


def fingerprint_config(config: AgentConfig) -> FingerprintConfig:
    """What of the agent's configuration the measurements heed."""
    measured = config.measured
    return FingerprintConfig(
        data_dir=config.data_dir,
        network_interface=config.network_interface,
        network_speed_mbits=config.network_speed_mbits,
        preferred_address_family=config.preferred_address_family,
        group_networks=config.group_networks,
        cpu_total_compute_mhz=measured.cpu_total_compute_mhz,
        memory_total_mb=measured.memory_total_mb,
        disk_total_mb=measured.disk_total_mb,
        disk_free_mb=measured.disk_free_mb,
        min_dynamic_port=measured.min_dynamic_port,
        max_dynamic_port=measured.max_dynamic_port,
        host_networks=tuple(
            HostNetwork(name, each.cidr, each.interface, each.reserved_ports)
            for name, each in config.host_networks.items()
        ),
    )
