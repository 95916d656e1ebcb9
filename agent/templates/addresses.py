"""`sockaddr`: addresses of this node by the templates of HashiCorp's go-sockaddr (1.0.7)."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key, partial
from pathlib import Path
from typing import Any

from agent.templates.address_ranges import NOT_FORWARDED, RANGES_OF_RFC, Network, networks
from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_int, parse_uint
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

    def is_in(self, ranges: Sequence[str]) -> bool:
        """Whether its whole network is within one of these."""
        return any(_is_within(self.address, each) for each in networks(ranges))

    def __str__(self) -> str:
        """The address, with its mask unless that is of one host."""
        full = self.address.network.prefixlen == self.address.max_prefixlen
        return str(self.address.ip) if full else str(self.address)


class _Address(GoStruct):
    go_type = "sockaddr.IfAddr"

    def __init__(self, found: NodeAddress) -> None:
        self.found = found

    def go_text(self) -> str:
        return f"{self.found} {self.found.interface}"

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
    """In the order of the interfaces' numbers."""
    import psutil  # few templates ask for addresses

    default = _default_interface()
    found, states, addresses = [], psutil.net_if_stats(), psutil.net_if_addrs()
    for _, name in socket.if_nameindex():
        state = states.get(name)
        flags = frozenset(state.flags.split(",") if state is not None else ())
        for each in addresses.get(name, ()):
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
    usable = _sorted(
        "default,type,size",
        _chosen("flags", "up", _chosen("flags", "forwardable", everything)),
    )
    private = _chosen("rfc", "6890", usable)
    public = _chosen("rfc", "6890", usable, wanted=False)

    def of_interface(name: str) -> list[_Address]:
        return _sorted("type,size", _chosen("name", name, everything))

    def first_of_interface(name: str) -> str:
        return _joined(_chosen("flags", "forwardable", of_interface(name))[:1])

    return {
        "GetAllInterfaces": fn(lambda: list(everything)),
        "GetDefaultInterfaces": fn(lambda: _default(everything)),
        "GetPrivateInterfaces": fn(lambda: list(private)),
        "GetPublicInterfaces": fn(lambda: list(public)),
        "GetPrivateIP": fn(lambda: _joined(private[:1])),
        "GetPrivateIPs": fn(lambda: _joined(_sorted("type,size", private))),
        "GetPublicIP": fn(lambda: _joined(public[:1])),
        "GetPublicIPs": fn(lambda: _joined(_sorted("type,size", public))),
        "GetInterfaceIP": text_fn(first_of_interface),
        "GetInterfaceIPs": text_fn(lambda name: _joined(of_interface(name))),
        "include": fn(_chosen, "string", "string", ANY),
        "exclude": fn(
            lambda by, value, given: _chosen(by, value, given, wanted=False),
            "string",
            "string",
            ANY,
        ),
        "attr": fn(_attribute, "string", ANY),
        "join": fn(
            lambda name, mark, given: mark.join(_attribute(name, [each]) for each in given),
            "string",
            "string",
            ANY,
        ),
        "limit": fn(_limited, "int", ANY),
        "offset": fn(_from_offset, "int", ANY),
        "sort": fn(_sorted, "string", ANY),
        "unique": fn(_unique, "string", ANY),
        "math": fn(_calculated, "string", "string", ANY),
    }


def _default(everything: list[_Address]) -> list[_Address]:
    found = [each for each in everything if each.found.is_default]
    if not found:
        raise InvalidInputError("No default interface found")
    return found


def _joined(found: Iterable[_Address]) -> str:
    return " ".join(str(each.found.address.ip) for each in found)


# -- attributes --------------------------------------------------------------------------------


def _attribute(name: str, given: Any) -> str:
    items = given if isinstance(given, list) else [given]
    if not items:
        return ""
    values = _attributes(items[0].found)
    if name.lower() not in values:
        raise InvalidInputError(f"unsupported attribute name {quote(name)}")
    return values[name.lower()]


def _attributes(found: NodeAddress) -> dict[str, str]:
    address, network, size = found.address, found.address.network, found.address.max_prefixlen
    first, last = int(network.network_address), int(network.broadcast_address)
    if address.version == 4 and network.prefixlen < 31:
        # Neither the network's own address nor that of all its hosts.
        first, last = first + 1, last - 1
    make = type(address.ip)
    values = {
        "name": found.interface,
        "flags": "|".join(shown for flag, shown in _FLAGS if flag in found.flags),
        "type": f"IPv{address.version}",
        "string": str(found),
        "host": str(address.ip),
        "address": str(address.ip),
        "port": "0",
        "netmask": str(address.netmask),
        "network": str(network.network_address),
        "mask_bits": str(network.prefixlen),
        "binary": f"{int(address.ip):0{size}b}",
        "hex": f"{int(address.ip):0{size // 4}x}",
        "first_usable": str(make(first)),
        "last_usable": str(make(last)),
        "octets": " ".join(map(str, address.ip.packed)),
        "size": str(network.num_addresses),
        f"uint{size}": str(int(address.ip)),
    }
    if address.version == 4:
        values["broadcast"] = str(network.broadcast_address)
    return values


_FLAGS = (
    ("up", "up"),
    ("broadcast", "broadcast"),
    ("loopback", "loopback"),
    ("pointopoint", "pointtopoint"),
    ("multicast", "multicast"),
    ("running", "running"),
)
"""Flags of the system, as they are shown."""


# -- choosing ----------------------------------------------------------------------------------


def _chosen(by: str, value: str, given: list[_Address], wanted: bool = True) -> list[_Address]:
    """The addresses that meet one of several values, once for each that they meet."""
    by = by.lower().removesuffix("s") if by.lower() in ("flags", "rfcs") else by.lower()
    make = _CRITERIA.get(by)
    if make is None:
        raise InvalidInputError(f"invalid selector {quote(by)}")
    if by == "type":
        tests = [make(each) for each in value.split("|")]
        return [one for one in given for test in tests if test(one.found) == wanted]
    values = value.split("|") if by in ("rfc", "network") else [value]
    tests = [make(each) for each in values]
    return [one for test in tests for one in given if test(one.found) == wanted]


_Test = Callable[[NodeAddress], bool]


def _is_within(address: Address, network: Network) -> bool:
    return (
        address.version == network.version
        and network.prefixlen <= address.network.prefixlen
        and address.ip in network
    )


def _matching(text_of: Callable[[NodeAddress], str], value: str) -> _Test:
    pattern = compile_pattern(value)
    return lambda found: pattern.search(text_of(found))


def _of_type(value: str) -> _Test:
    versions = {"ip": (4, 6), "ipv4": (4,), "ipv6": (6,), "unix": ()}.get(value.lower())
    if versions is None:
        raise InvalidInputError(f"unsupported type {quote(value)}")
    return lambda found: found.address.version in versions


def _of_rfc(value: str) -> _Test:
    ranges = RANGES_OF_RFC.get(parse_uint(value))
    if ranges is None:
        raise InvalidInputError(f"unsupported RFC {value}")
    return lambda found: found.is_in(ranges)


def _of_size(value: str) -> _Test:
    bits = parse_uint(value)

    def test(found: NodeAddress) -> bool:
        if bits > found.address.max_prefixlen:
            raise InvalidInputError(
                f"mask size out of bounds for IPv{found.address.version} address: {bits}"
            )
        return found.address.network.prefixlen == bits

    return test


def _of_network(value: str) -> _Test:
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError as error:
        raise InvalidInputError(
            f"unable to create an IP address from {quote(value)}: {error}"
        ) from None
    return lambda found: _is_within(found.address, network)


def _with_flags(value: str) -> _Test:
    """An address whose interface has all of the interface's flags that are named, or which is one
    of what the others say of addresses."""
    of_interface: set[str] = set()
    of_address: list[_Test] = []
    names = value.lower().split("|")
    for name in names:
        if name not in _INTERFACE_FLAGS and name not in _ADDRESS_FLAGS:
            raise InvalidInputError(f"Unknown interface flag: {quote(name)}")
        if name == "down":
            of_interface.discard("up")
        elif name in _INTERFACE_FLAGS:
            of_interface.add(_INTERFACE_FLAGS[name])
        if name in _ADDRESS_FLAGS:
            of_address.append(_ADDRESS_FLAGS[name])
    asks_interface = not _INTERFACE_FLAGS.keys().isdisjoint(names)
    return lambda found: (
        (asks_interface and of_interface <= found.flags) or any(test(found) for test in of_address)
    )


_INTERFACE_FLAGS = {
    "broadcast": "broadcast",
    "down": "",
    "loopback": "loopback",
    "multicast": "multicast",
    "point-to-point": "pointopoint",
    "up": "up",
}


def _is_global_unicast(found: NodeAddress) -> bool:
    ip = found.address.ip
    return str(ip) != "255.255.255.255" and not (
        ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local
    )


_ADDRESS_FLAGS: dict[str, _Test] = {
    "forwardable": lambda found: not found.is_in(NOT_FORWARDED),
    "global unicast": _is_global_unicast,
    "interface-local multicast": lambda found: found.is_in(("ff01::/16",)),
    "link-local multicast": lambda found: found.is_in(("224.0.0.0/24", "ff02::/16")),
    "link-local unicast": lambda found: found.address.ip.is_link_local,
    "loopback": lambda found: found.address.ip.is_loopback,
    "multicast": lambda found: found.address.ip.is_multicast,
    "unspecified": lambda found: found.address.ip.is_unspecified,
}
_CRITERIA: dict[str, Callable[[str], _Test]] = {
    "address": partial(_matching, str),
    "flag": _with_flags,
    "name": partial(_matching, lambda found: found.interface),
    "network": _of_network,
    "port": partial(_matching, lambda _: "0"),
    "rfc": _of_rfc,
    "size": _of_size,
    "type": _of_type,
}


def _limited(count: int, given: list[_Address]) -> list[_Address]:
    if count < 0:
        raise InvalidInputError(f"cannot limit to {count}: the number must not be negative")
    return given[:count]


def _from_offset(count: int, given: list[_Address]) -> list[_Address]:
    """A negative number counts from the end."""
    if abs(count) > len(given):
        raise InvalidInputError(
            "unable to seek past the end of the interface array: "
            f"offset ({abs(count)}) exceeds the number of interfaces ({len(given)})"
        )
    return given[len(given) + count :] if count < 0 else given[count:]


# -- order -------------------------------------------------------------------------------------

_Compare = Callable[[NodeAddress, NodeAddress], int]
_FEW = 12


def _sorted(by: str, given: list[_Address]) -> list[_Address]:
    """Few addresses are sorted by insertion, as Go sorts them: those of both versions have no order
    for some of the criteria, and what comes of them depends on that."""
    compares = [_comparison(part.strip().lower()) for part in by.split(",")]

    def compared(one: _Address, other: _Address) -> int:
        decisions = (compare(one.found, other.found) for compare in compares)
        return next((each for each in decisions if each), 0)

    if len(given) > _FEW:
        return sorted(given, key=cmp_to_key(compared))
    items: list[_Address] = []
    for each in given:
        at = len(items)
        while at > 0 and compared(each, items[at - 1]) < 0:
            at -= 1
        items.insert(at, each)
    return items


def _comparison(text: str) -> _Compare:
    compare = _COMPARISONS.get(text.lstrip("+") if text.startswith("+") else text.lstrip("-"))
    if compare is None or text[:2] in ("++", "--"):
        raise InvalidInputError(f"unknown sort type: {quote(text)}")
    if text.startswith("-"):
        return lambda one, other: -compare(one, other)
    return compare


def _by_number(key: Callable[[NodeAddress], int], same_version: bool) -> _Compare:
    def compare(one: NodeAddress, other: NodeAddress) -> int:
        if same_version and one.address.version != other.address.version:
            return 0
        return (key(one) > key(other)) - (key(one) < key(other))

    return compare


def _by_name(one: NodeAddress, other: NodeAddress) -> int:
    return (one.interface > other.interface) - (one.interface < other.interface)


def _private_first(one: NodeAddress, other: NodeAddress) -> int:
    first, second = (each.is_in(RANGES_OF_RFC[6890]) for each in (one, other))
    if one.address.version != other.address.version:
        return -1 if first else 0
    return second - first


_COMPARISONS: dict[str, _Compare] = {
    "address": _by_number(lambda each: int(each.address.ip), same_version=True),
    "default": _by_number(lambda each: not each.is_default, same_version=False),
    "name": _by_name,
    "port": lambda one, other: 0,
    "private": _private_first,
    "size": _by_number(lambda each: each.address.network.prefixlen, same_version=True),
    "type": _by_number(lambda each: each.address.version, same_version=False),
}


def _unique(by: str, given: list[_Address]) -> list[_Address]:
    """Leaves out what equals its neighbour before."""
    keys: dict[str, Callable[[NodeAddress], str]] = {
        "address": str,
        "name": lambda found: found.interface,
    }
    key = keys.get(by.lower())
    if key is None:
        raise InvalidInputError(f"unsupported unique constraint {quote(by)}")
    before = [None, *(key(each.found) for each in given)]
    return [each for each, last in zip(given, before, strict=False) if key(each.found) != last]


# -- sums --------------------------------------------------------------------------------------


def _calculated(operation: str, value: str, given: list[_Address]) -> list[_Address]:
    calculate = _OPERATIONS.get(operation.lower())
    if calculate is None:
        raise InvalidInputError(f"unsupported math operation: {quote(operation)}")
    return [
        _Address(replace(each.found, address=calculate(each.found.address, value)))
        for each in given
    ]


def _signed(value: str, operation: str, bits: int) -> int:
    if value[:1] not in ("+", "-"):
        raise InvalidInputError(f"sign (+/-) is required for operation {quote(operation)}")
    number = parse_int(value)
    # An address of version 4 takes any number of 32 bits, with its sign.
    if bits == 32 and not -(1 << 32) <= number < 1 << 32:
        raise InvalidInputError(f"unable to convert {quote(value)} to int: value out of range")
    return number


def _made(like: Address, number: int, prefix: int) -> Address:
    return type(like)((number % (1 << like.max_prefixlen), prefix))


def _address_moved(address: Address, value: str) -> Address:
    by = _signed(value, "address", address.max_prefixlen)
    return _made(address, int(address.ip) + by, address.network.prefixlen)


def _within_network(address: Address, value: str) -> Address:
    """Counts from the network's address, or with a minus back from the last one, and wraps."""
    by = _signed(value, "network", address.max_prefixlen)
    network = address.network
    place = by % network.num_addresses
    return _made(address, int(network.network_address) + place, network.prefixlen)


def _masked(address: Address, value: str) -> Address:
    bits = parse_uint(value)
    if bits > address.max_prefixlen:
        raise InvalidInputError(
            f'parameter for operation "mask" on ipv{address.version} addresses must be between '
            f"0 and {address.max_prefixlen}"
        )
    network = ipaddress.ip_network(f"{address.ip}/{bits}", strict=False)
    prefix = min(bits, address.network.prefixlen)
    return _made(address, int(network.network_address), prefix)


_OPERATIONS: dict[str, Callable[[Address, str], Address]] = {
    "address": _address_moved,
    "network": _within_network,
    "mask": _masked,
}
