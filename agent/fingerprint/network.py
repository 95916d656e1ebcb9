"""Interfaces and addresses, and the node's own one, on which ports are given out."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from orchgit.model.node import NodeNetwork, NodeNetworkAddress
from orchgit.model.resources import NetworkResource

_DEFAULT_SPEED_MBITS = 1000
_LOOPBACK = "lo"


class Address(msgspec.Struct, frozen=True):
    family: str
    ip: str
    prefix_length: int


class Interface(msgspec.Struct, frozen=True):
    name: str
    mac: str
    speed_mbits: int
    addresses: list[Address]


class HostNetwork(msgspec.Struct, frozen=True):
    """A `host_network` block; "" is any interface, any address."""

    name: str
    cidr: str = ""
    interface: str = ""
    reserved_ports: str = ""

    def addresses_of(self, interface: Interface) -> list[NodeNetworkAddress]:
        if self.interface not in ("", interface.name):
            return []
        block = ipaddress.ip_network(self.cidr, strict=False) if self.cidr else None
        return [
            NodeNetworkAddress(
                family=address.family,
                alias=self.name,
                address=address.ip,
                reserved_ports=self.reserved_ports,
            )
            for address in interface.addresses
            if block is None or ipaddress.ip_address(address.ip) in block
        ]


class Network(msgspec.Struct, frozen=True):
    """`default` is the interface that jobs' ports are on; None on a machine without any."""

    default: Interface | None
    interfaces: list[Interface]

    def attributes(self) -> dict[str, str]:
        address = self._address()
        return {"unique.network.ip-address": address.ip} if address else {}

    def resources(self) -> list[NetworkResource]:
        address = self._address()
        if self.default is None or address is None:
            return []
        return [
            NetworkResource(
                mode="host",
                device=self.default.name,
                ip=address.ip,
                cidr=f"{address.ip}/{32 if address.family == 'ipv4' else 128}",
                mbits=self.default.speed_mbits,
            )
        ]

    def node_networks(self, named: Sequence[HostNetwork] = ()) -> list[NodeNetwork]:
        """The default interface under the alias that jobs mean when they name no host network, then
        the addresses of each host network under its name."""
        found = {self.default.name: _node_network(self.default, "default")} if self.default else {}
        for interface in self.interfaces:
            for host_network in named:
                own = host_network.addresses_of(interface)
                if not own:
                    continue
                network = found.setdefault(interface.name, _node_network(interface))
                network.addresses += own
        return list(found.values())

    def _address(self) -> Address | None:
        return next(iter(self.default.addresses), None) if self.default else None


def read(interface: str = "", speed_mbits: int = 0, first_family: str = "") -> Network:
    """The node's interfaces; `interface` names the default one, else the default route does.

    Addresses of `first_family` come first; "" is IPv4.
    """
    first = first_family or "ipv4"
    speeds = psutil.net_if_stats()
    interfaces = [
        Interface(
            name,
            next((a.address for a in found if a.family == psutil.AF_LINK), ""),
            speed_mbits or (speeds[name].speed if name in speeds else 0) or _DEFAULT_SPEED_MBITS,
            sorted(_addresses(found), key=lambda address: address.family != first),
        )
        for name, found in psutil.net_if_addrs().items()
    ]
    by_name = {one.name: one for one in interfaces}
    wanted = interface or default_route()
    return Network(by_name.get(wanted) or by_name.get(_LOOPBACK), interfaces)


def _addresses(found: Sequence[Any]) -> list[Address]:
    """The addresses that other machines can use: no link-local ones."""
    families = {socket.AF_INET: "ipv4", socket.AF_INET6: "ipv6"}
    usable = []
    for one in found:
        family = families.get(one.family)
        if family and one.netmask:
            parsed = ipaddress.ip_address(one.address.partition("%")[0])
            if not parsed.is_link_local:
                prefix_length = int(ipaddress.ip_address(one.netmask)).bit_count()
                usable.append(Address(family, str(parsed), prefix_length))
    return usable


def default_route(routes: Path = Path("/proc/net/route")) -> str:
    """The interface of the default route with the lowest metric; "" without one."""
    try:
        rows = [line.split() for line in routes.read_text().splitlines()[1:]]
    except OSError:
        return ""
    defaults = [(int(row[6]), row[0]) for row in rows if row[1] == "00000000"]
    return min(defaults, default=(0, ""))[1]


def _node_network(interface: Interface, alias: str = "") -> NodeNetwork:
    return NodeNetwork(
        mode="host",
        device=interface.name,
        mac_address=interface.mac,
        speed=interface.speed_mbits,
        addresses=[
            NodeNetworkAddress(family=address.family, alias=alias, address=address.ip)
            for address in interface.addresses
            if alias
        ],
    )
