"""A container's place in the engine's networks, or in that of its group. Pure."""

from __future__ import annotations

from agent.drivers.base import DriverNetwork, Mount, TaskConfig
from agent.drivers.docker.config import DockerConfig
from orchgit.errors import DriverError

_OF_THE_GROUP = (
    *("hostname", "dns_servers", "dns_search_domains", "dns_options", "extra_hosts"),
    *("network_aliases", "ipv4_address", "ipv6_address", "mac_address"),
)
"""Keys that a container has no say in where it joins the network of its group."""
_ENGINES_OWN = ("", "default", "bridge", "host", "none")


def joined_network(task: TaskConfig, config: DockerConfig, engine: str) -> str:
    """The network mode by which a container joins its group's network; "" where it has its own.

    DriverError for a key that has no effect there, and for a network that this engine cannot join.
    """
    network = task.network
    if network is None or config.network_mode:
        return ""
    if engine == "docker" and network.created_by != engine:
        maker = network.created_by or "the agent"
        raise DriverError(
            f"cannot start task {task.task_name} in the network of its group: {maker} made it, and "
            f"{engine} joins only its own"
        )
    for key in _OF_THE_GROUP:
        if getattr(config, key):
            raise DriverError(
                f"cannot use {key} of task {task.task_name}: the network belongs to its group; "
                f"write it in the group's network block, or give the task a network_mode"
            )
    container = network.state.get("container")
    return f"container:{container}" if container else f"ns:{network.namespace}"


def network_files(task: TaskConfig, config: DockerConfig) -> tuple[Mount, ...]:
    """The group's /etc/hosts and /etc/resolv.conf, where the container joins its network."""
    network = task.network
    if network is None or config.network_mode:
        return ()
    found = (("/etc/hosts", network.hosts_file), ("/etc/resolv.conf", network.resolv_conf))
    return tuple(Mount(source, target) for target, source in found if source)


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


def inner_ports(task: TaskConfig, config: DockerConfig) -> dict[str, int]:
    """The port inside the container of each label of `ports` and `port_map`. DriverError for a
    label that the group's network does not have."""
    known = {port.label: port for port in task.ports}
    found = {}
    for label in dict.fromkeys((*config.ports, *config.port_map)):
        port = known.get(label)
        if port is None:
            raise DriverError(
                f'cannot publish port "{label}" of task {task.task_name}: the group\'s network '
                "has no such port"
            )
        found[label] = config.port_map.get(label) or port.task_port or port.host_port
    return found


def port_bindings(task: TaskConfig, inside: dict[str, int]) -> dict[str, list[dict[str, str]]]:
    """Both protocols of each port."""
    known = {port.label: port for port in task.ports}
    return {
        f"{port}/{protocol}": [
            {"HostIp": known[label].host_ip, "HostPort": str(known[label].host_port)}
        ]
        for label, port in inside.items()
        for protocol in ("tcp", "udp")
    }


def has_own_network(mode: str) -> bool:
    """Whether ports are published: not in a network namespace that the container does not own."""
    return mode != "host" and not mode.startswith(("container:", "ns:"))


def driver_network(
    addresses: dict[str, tuple[str, str]], ports: dict[str, int], prefers_ipv6: bool
) -> DriverNetwork | None:
    """What services may advertise: `addresses` are IPv4 and IPv6 by network of the engine.

    An address in a network that somebody made is advertised unless the service says otherwise.
    """
    for name, (address, address_ipv6) in addresses.items():
        ip = address_ipv6 if prefers_ipv6 and address_ipv6 else address
        if ip:
            return DriverNetwork(
                ip=ip, ports=ports, auto_advertise=prefers_ipv6 or name not in _ENGINES_OWN
            )
    return None
