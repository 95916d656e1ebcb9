"""The ports and bandwidth of one node: what is taken, and what a group can still be given.

No numpy here: the plan applier uses it too.
"""

from __future__ import annotations

import random

from msgspec.structs import replace

from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources, NetworkResource, Port
from orchgit.whole_number import whole_number

DEFAULT_NETWORK = "default"
_FIRST_DYNAMIC_PORT, _LAST_DYNAMIC_PORT = 20000, 32000
_RANDOM_TRIES = 20
_LAST_PORT = 65535


class PortUnavailableError(Exception):
    """A network ask cannot be met on this node; the text is the dimension that is exhausted."""


def parse_ports(text: str) -> set[int]:
    """`22,80,8000-8010` as a set; what is not a number is left out (agents check it)."""
    ports: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = whole_number(first.strip()), whole_number((last or first).strip())
        if low is not None and high is not None and low >= 0 and high <= _LAST_PORT:
            ports.update(range(low, high + 1))
    return ports


def ports_of(resources: AllocatedResources) -> list[tuple[str, int]]:
    """(address, port) of everything the allocation holds; address "" means all addresses."""
    shared = resources.shared
    if shared.ports:
        return [(port.host_ip, port.value) for port in shared.ports if not port.ignore_collision]
    networks = list(shared.networks or ())
    for task in resources.tasks.values():
        networks += task.networks or ()
    return [
        (network.ip, port.value)
        for network in networks
        for port in (network.reserved_ports or []) + (network.dynamic_ports or [])
        if port.value > 0
    ]


def bandwidth_of(resources: AllocatedResources) -> list[tuple[str, int]]:
    """(device, MBit/s) of the deprecated task networks."""
    return [
        (network.device, network.mbits or 0)
        for task in resources.tasks.values()
        for network in task.networks or ()
    ]


class NodeNetworks:
    """What a node's networks are, without any use: addresses by host network, its port range."""

    def __init__(self, node: Node) -> None:
        resources = node.node_resources
        reserved = parse_ports(node.reserved_resources.networks.reserved_host_ports)
        self.first_port = resources.min_dynamic_port or _FIRST_DYNAMIC_PORT
        self.last_port = resources.max_dynamic_port or _LAST_DYNAMIC_PORT
        self.addresses: dict[str, list[str]] = {}
        self.reserved: dict[str, set[int]] = {}
        self.bandwidth: dict[str, int] = {}
        for network in resources.node_networks or ():
            for address in network.addresses:
                self.addresses.setdefault(address.alias, []).append(address.address)
                self.reserved[address.address] = reserved | parse_ports(address.reserved_ports)
        self.hosts = [network for network in resources.networks or () if network.ip]
        for host in self.hosts:
            self.reserved.setdefault(host.ip, reserved)
            self.bandwidth[host.device] = host.mbits or 0
            if DEFAULT_NETWORK not in self.addresses:
                self.addresses[DEFAULT_NETWORK] = [host.ip]


class PortIndex:
    """The ports and bandwidth taken on one node; asks are answered from what is left."""

    def __init__(self, networks: NodeNetworks) -> None:
        self.networks = networks
        self.used: dict[str, set[int]] = {}
        self.bandwidth_used: dict[str, int] = {}

    def is_free(self, address: str, port: int) -> bool:
        if port in self.networks.reserved.get(address, ()):
            return False
        return port not in self.used.get(address, ()) and port not in self.used.get("", ())

    def take(self, address: str, port: int) -> bool:
        """False when it was taken already (it stays taken)."""
        free = self.is_free(address, port)
        if not address:
            free = free and all(self.is_free(known, port) for known in self.networks.reserved)
        self.used.setdefault(address, set()).add(port)
        return free

    def take_resources(self, resources: AllocatedResources) -> None:
        for address, port in ports_of(resources):
            self.take(address, port)
        for device, mbits in bandwidth_of(resources):
            self.bandwidth_used[device] = self.bandwidth_used.get(device, 0) + mbits

    def offer_group(
        self, ask: NetworkResource, rng: random.Random, node_alias: dict[str, str] | None = None
    ) -> list[AllocatedPort]:
        """Ports for a group's network block; `node_alias` resolves interpolated host networks.

        Raises PortUnavailableError. What is offered is not taken yet.
        """
        offered: list[AllocatedPort] = []
        for port in ask.reserved_ports or ():
            offered.append(self._offer_static(port, offered, node_alias or {}))
        for port in ask.dynamic_ports or ():
            offered.append(self._offer_dynamic(port, offered, rng, node_alias or {}))
        return offered

    def _addresses(self, port: Port, aliases: dict[str, str]) -> list[str]:
        name = aliases.get(port.host_network, port.host_network) or DEFAULT_NETWORK
        addresses = self.networks.addresses.get(name)
        if not addresses:
            raise PortUnavailableError(f'no addresses available for "{name}" network')
        return addresses

    def _offer_static(
        self, port: Port, offered: list[AllocatedPort], aliases: dict[str, str]
    ) -> AllocatedPort:
        for address in self._addresses(port, aliases):
            in_offer = any(o.host_ip == address and o.value == port.value for o in offered)
            if port.ignore_collision or (self.is_free(address, port.value) and not in_offer):
                return _allocated(port, port.value, address)
        raise PortUnavailableError(f"reserved port collision {port.label}={port.value}")

    def _offer_dynamic(
        self,
        port: Port,
        offered: list[AllocatedPort],
        rng: random.Random,
        aliases: dict[str, str],
    ) -> AllocatedPort:
        taken = {o.value for o in offered}
        for address in self._addresses(port, aliases):
            value = self._free_dynamic_port(address, taken, rng)
            if value:
                return _allocated(port, value, address)
        raise PortUnavailableError("dynamic port selection failed")

    def _free_dynamic_port(self, address: str, taken: set[int], rng: random.Random) -> int:
        first, last = self.networks.first_port, self.networks.last_port
        used, reserved = self.used.get(address, ()), self.networks.reserved.get(address, ())
        everywhere = self.used.get("", ())
        span = max(last - first, 1)
        for _ in range(_RANDOM_TRIES):
            value = first + int(rng.random() * span)
            if not (value in used or value in reserved or value in taken or value in everywhere):
                return value
        free = [
            value
            for value in range(first, last + 1)
            if value not in taken and self.is_free(address, value)
        ]
        return rng.choice(free) if free else 0

    def offer_task(self, ask: NetworkResource, rng: random.Random) -> NetworkResource:
        """The deprecated network of a task: all on one address. Raises PortUnavailableError."""
        reason = "no networks available"
        for host in self.networks.hosts:
            limit = self.networks.bandwidth.get(host.device, 0)
            if self.bandwidth_used.get(host.device, 0) + (ask.mbits or 0) > limit:
                reason = "bandwidth exceeded"
                continue
            try:
                return self._offer_on_host(ask, host, rng)
            except PortUnavailableError as error:
                reason = str(error)
        raise PortUnavailableError(reason)

    def _offer_on_host(
        self, ask: NetworkResource, host: NetworkResource, rng: random.Random
    ) -> NetworkResource:
        taken: set[int] = set()
        for port in ask.reserved_ports or ():
            if not self.is_free(host.ip, port.value):
                raise PortUnavailableError(f"reserved port collision {port.label}={port.value}")
            taken.add(port.value)
        dynamic = []
        for port in ask.dynamic_ports or ():
            value = self._free_dynamic_port(host.ip, taken, rng)
            if not value:
                raise PortUnavailableError("dynamic port selection failed")
            taken.add(value)
            dynamic.append(replace(port, value=value, to=value if port.to == -1 else port.to))
        return replace(ask, device=host.device, ip=host.ip, dynamic_ports=dynamic)


def _allocated(port: Port, value: int, address: str) -> AllocatedPort:
    return AllocatedPort(
        label=port.label,
        value=value,
        to=value if port.to == -1 else port.to,
        host_ip=address,
        ignore_collision=port.ignore_collision,
    )
