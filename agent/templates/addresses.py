"""`sockaddr`: addresses of this node by the templates of HashiCorp's go-sockaddr."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.errors import LimitError, TemplateError
from orchgit.go_templates.functions import ANY, GoFunction, fn, text_fn
from orchgit.go_templates.render import render
from orchgit.go_templates.values import GoStruct
from orchgit.regex import compile_pattern

Address = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class NodeAddress:
    interface: str
    address: Address
    flags: frozenset[str]
    is_default: bool
    """Whether the default route leaves by the interface."""


class _Address(GoStruct):
    go_type = "sockaddr.IfAddr"

    def __init__(self, found: NodeAddress) -> None:
        self.found = found

    def go_text(self) -> str:
        return f"{self.found.address} {self.found.interface}"

    def go_field(self, name: str) -> Any:
        return {"Name": self.found.interface}.get(name, super().go_field(name))


def addresses_of(text: str) -> str:
    """The addresses that the template names. Raises InvalidInputError."""
    return evaluated(text, node_addresses())


def evaluated(text: str, known: list[NodeAddress]) -> str:
    """`text` is a whole template, or only the inside of one."""
    whole = text if "{{" in text else f"{{{{ {text} }}}}"
    try:
        return render(whole, functions=_functions(known))
    except TemplateError as error:
        said = str(error).replace("template: :", "template: sockaddr.Parse:", 1)
        raise InvalidInputError(f"unable to parse template {quote(whole)}: {said}") from None
    except LimitError as error:
        raise InvalidInputError(str(error)) from None


def node_addresses() -> list[NodeAddress]:
    import psutil  # few templates ask for addresses

    default = _default_interface()
    found, states = [], psutil.net_if_stats()
    for name, addresses in sorted(psutil.net_if_addrs().items()):
        state = states.get(name)
        flags = frozenset(state.flags.split(",") if state is not None else ())
        for each in addresses:
            if each.family not in (socket.AF_INET, socket.AF_INET6) or not each.netmask:
                continue
            host = each.address.partition("%")[0]
            prefix = bin(int(ipaddress.ip_address(each.netmask))).count("1")
            address = ipaddress.ip_interface(f"{host}/{prefix}")
            found.append(NodeAddress(name, address, flags, name == default))
    return found


def _default_interface() -> str:
    try:
        lines = Path("/proc/net/route").read_text().splitlines()[1:]
    except OSError:
        return ""
    return next((line.split()[0] for line in lines if line.split()[1] == "00000000"), "")


def _functions(known: list[NodeAddress]) -> dict[str, GoFunction]:
    everything = [_Address(each) for each in known]
    usable = [
        each
        for each in everything
        if each.found.is_default and "up" in each.found.flags and _is_forwardable(each)
    ]
    private = [each for each in usable if each.found.address.is_private]
    public = [each for each in usable if not each.found.address.is_private]

    def of_interface(name: str) -> list[_Address]:
        return [
            each
            for each in everything
            if compile_pattern(name).fullmatch(each.found.interface) and _is_forwardable(each)
        ]

    return {
        "GetAllInterfaces": fn(lambda: list(everything)),
        "GetDefaultInterfaces": fn(lambda: [each for each in everything if each.found.is_default]),
        "GetPrivateInterfaces": fn(lambda: list(private)),
        "GetPublicInterfaces": fn(lambda: list(public)),
        "GetPrivateIP": fn(lambda: _joined(private[:1])),
        "GetPrivateIPs": fn(lambda: _joined(private)),
        "GetPublicIP": fn(lambda: _joined(public[:1])),
        "GetPublicIPs": fn(lambda: _joined(public)),
        "GetInterfaceIP": text_fn(lambda name: _joined(of_interface(name)[:1])),
        "GetInterfaceIPs": text_fn(lambda name: _joined(of_interface(name))),
        "include": fn(_filtered(True), "string", "string", ANY),
        "exclude": fn(_filtered(False), "string", "string", ANY),
        "attr": fn(_attribute, "string", ANY),
        "join": fn(
            lambda name, mark, given: mark.join(_attribute(name, [each]) for each in given),
            "string",
            "string",
            ANY,
        ),
        "limit": fn(lambda count, given: given[:count], "int", ANY),
        "offset": fn(lambda count, given: given[count:], "int", ANY),
        "sort": fn(_sorted, "string", ANY),
        "unique": fn(_unique, "string", ANY),
    }


def _is_forwardable(each: _Address) -> bool:
    address = each.found.address
    return not (address.is_loopback or address.is_link_local or address.is_multicast)


def _joined(found: list[_Address]) -> str:
    return " ".join(str(each.found.address.ip) for each in found)


def _attribute(name: str, given: Any) -> str:
    items = given if isinstance(given, list) else [given]
    if not items:
        return ""
    found = items[0].found
    network = found.address.network
    values: dict[str, str] = {
        "address": str(found.address.ip),
        "name": found.interface,
        "host": str(found.address.ip),
        "network": str(network.network_address),
        "netmask": str(found.address.netmask),
        "size": str(network.num_addresses),
        "first_usable": str(next(iter(network.hosts()), found.address.ip)),
        "type": f"IPv{found.address.version}",
        "flags": "|".join(sorted(found.flags)),
        "string": str(found.address),
    }
    if name not in values:
        raise InvalidInputError(f"unsupported attribute name {quote(name)}")
    return values[name]


def _filtered(wanted: bool) -> Callable[[str, str, Any], Any]:
    def chosen(by: str, value: str, given: Any) -> Any:
        return [each for each in given if _has(each.found, by, value) == wanted]

    return chosen


def _has(found: NodeAddress, by: str, value: str) -> bool:
    address = found.address
    match by:
        case "type":
            names = {"ip": True, "ipv4": address.version == 4, "ipv6": address.version == 6}
            return names.get(value.lower(), False)
        case "name":
            return compile_pattern(value).search(found.interface)
        case "address":
            return compile_pattern(value).search(str(address.ip))
        case "flag" | "flags":
            flags = {
                "forwardable": _is_forwardable(_Address(found)),
                "private": address.is_private,
                "public": not address.is_private,
            }
            return all(
                flags.get(each, each.replace("up", "up") in found.flags)
                for each in value.split("|")
            )
        case "network":
            network = ipaddress.ip_network(value, strict=False)
            return address.version == network.version and address.ip in network
        case "size":
            return str(address.network.num_addresses) == value
        case "rfc":
            ranges = _RFC.get(value)
            if ranges is None:
                raise InvalidInputError(f"unsupported RFC {quote(value)}")
            return any(
                address.version == 4 and address.ip in ipaddress.ip_network(each) for each in ranges
            )
    raise InvalidInputError(f"unsupported filter {quote(by)}")


_RFC = {
    "1918": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    "6890": (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16",
        "100.64.0.0/10",
    ),
    "3927": ("169.254.0.0/16",),
    "6598": ("100.64.0.0/10",),
}  # fmt: skip


def _key(by: str) -> Callable[[_Address], Any]:
    return {
        "address": lambda each: (each.found.address.version, int(each.found.address.ip)),
        "name": lambda each: each.found.interface,
        "type": lambda each: each.found.address.version,
        "size": lambda each: each.found.address.network.num_addresses,
        "default": lambda each: not each.found.is_default,
    }.get(by, lambda each: str(each.found.address))


def _sorted(by: str, given: Any) -> Any:
    items = list(given)
    for part in reversed(by.split(",")):
        items.sort(key=_key(part.strip().lstrip("+-")), reverse=part.strip().startswith("-"))
    return items


def _unique(by: str, given: Any) -> Any:
    return list({_key(by)(each): each for each in given}.values())
