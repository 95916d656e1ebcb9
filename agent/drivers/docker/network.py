"""A container's place in the engine's networks. Pure."""

from __future__ import annotations

from agent.drivers.base import TaskConfig
from agent.drivers.docker.config import DockerConfig
from orchgit.errors import DriverError


def network_settings(config: DockerConfig) -> dict[str, object]:
    """Addresses and names in a network of the engine's own."""
    addresses = {"IPv4Address": config.ipv4_address, "IPv6Address": config.ipv6_address}
    given = {name: address for name, address in addresses.items() if address}
    endpoint: dict[str, object] = {}
    if given:
        endpoint["IPAMConfig"] = given
    if config.network_aliases:
        endpoint["Aliases"] = config.network_aliases
    network: dict[str, object] = {}
    if config.mac_address:
        network["MacAddress"] = config.mac_address
    if endpoint:
        name = config.network_mode or "default"
        network["NetworkingConfig"] = {"EndpointsConfig": {name: endpoint}}
    return network


def exposed_ports(task: TaskConfig, config: DockerConfig) -> dict[str, dict[str, str]]:
    return {port: {} for port in port_bindings(task, config)}


def port_bindings(task: TaskConfig, config: DockerConfig) -> dict[str, list[dict[str, str]]]:
    """Both protocols of each port named in `ports` or `port_map`; none in a network namespace that
    the container does not own."""
    if config.network_mode == "host" or config.network_mode.startswith("container:"):
        return {}
    known = {port.label: port for port in task.ports}
    bindings: dict[str, list[dict[str, str]]] = {}
    for label in dict.fromkeys((*config.ports, *config.port_map)):
        port = known.get(label)
        if port is None:
            raise DriverError(
                f'cannot publish port "{label}" of task {task.task_name}: the group\'s network '
                "has no such port"
            )
        inside = config.port_map.get(label) or port.task_port or port.host_port
        for protocol in ("tcp", "udp"):
            bindings[f"{inside}/{protocol}"] = [
                {"HostIp": port.host_ip, "HostPort": str(port.host_port)}
            ]
    return bindings
