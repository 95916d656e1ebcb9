"""What the plugins of a network answer: interfaces, addresses, DNS. Pure."""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.model.resources import DNSConfig


class ConnectedInterface(msgspec.Struct, frozen=True, kw_only=True):
    """The interface of a namespace that the network gave addresses to."""

    name: str = ""
    address: str = ""
    """IPv4, or IPv6 where that is the only one; "" without any."""
    address_ipv6: str = ""
    dns: DNSConfig | None = None
    """None where the plugins name no server."""


class _Interface(msgspec.Struct):
    name: str = ""
    sandbox: str = ""


class _Address(msgspec.Struct):
    address: str = ""
    interface: int | None = None


class _Dns(msgspec.Struct):
    nameservers: list[str] = []
    search: list[str] = []
    domain: str = ""
    options: list[str] = []


class _OneFamily(msgspec.Struct):
    ip: str = ""


class _Result(msgspec.Struct):
    interfaces: list[_Interface] | None = None
    ips: list[_Address] | None = None
    dns: _Dns | None = None
    ip4: _OneFamily | None = None
    ip6: _OneFamily | None = None


def connected_interface(result: dict[str, Any], default_name: str) -> ConnectedInterface:
    """Returns the first interface inside the namespace that has an address.

    Raises InvalidInputError for a result that does not follow the specification.
    """
    try:
        answer = msgspec.convert(result, _Result)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"cannot read the result of a CNI network: {error}") from None
    interfaces = answer.interfaces or []
    addresses = list(answer.ips or ())
    if not addresses:  # versions 0.1 and 0.2
        addresses = [_Address(one.ip) for one in (answer.ip4, answer.ip6) if one and one.ip]
    by_interface: dict[str, list[str]] = {}
    for entry in addresses:
        name = default_name
        if entry.interface is not None and 0 <= entry.interface < len(interfaces):
            interface = interfaces[entry.interface]
            if not interface.sandbox:  # an interface of the host
                continue
            name = interface.name
        by_interface.setdefault(name, []).append(_plain_address(entry.address))
    name = min(by_interface, default=default_name)
    of_version: dict[int, str] = {}
    for text in by_interface.get(name, ()):
        of_version.setdefault(6 if ":" in text else 4, text)
    dns = answer.dns or _Dns()
    return ConnectedInterface(
        name=name,
        address=of_version.get(4) or of_version.get(6, ""),
        address_ipv6=of_version.get(6, ""),
        dns=DNSConfig(
            servers=dns.nameservers,
            searches=dns.search or ([dns.domain] if dns.domain else []),
            options=dns.options,
        )
        if dns.nameservers
        else None,
    )


def _plain_address(text: str) -> str:
    try:
        return str(ipaddress.ip_interface(text).ip)
    except ValueError:
        raise InvalidInputError(
            f'cannot read the result of a CNI network: "{text}" is no address'
        ) from None
