"""CIDR arithmetic. `ipaddress` costs 5 ms to import, so it waits for the first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobspec.evaluation.numbers import Number
from jobspec.evaluation.values import List, Value
from jobspec.functions.signature import ArgumentError, Function, FunctionError, num, text

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    Network = IPv4Network | IPv6Network


def _network(prefix: str) -> Network:
    import ipaddress  # see the module's docstring

    try:
        if "/" not in prefix or not prefix.partition("/")[2].isdecimal():
            raise ValueError(prefix)
        return ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        raise FunctionError(f"invalid CIDR expression: invalid CIDR address: {prefix}") from None


def _whole(value: Number) -> int:
    if type(value) is not int:
        raise FunctionError("value must be a whole number")
    return value


def _cidrhost(prefix: str, host: Number) -> str:
    network = _network(prefix)
    number = _whole(host)
    if not -network.num_addresses <= number < network.num_addresses:
        raise FunctionError(f"prefix of {network.prefixlen} does not accommodate a host {number}")
    return str(network[number])


def _cidrnetmask(prefix: str) -> str:
    return str(_network(prefix).netmask)


def _subnet(network: Network, newbits: int, number: int) -> Network:
    length = network.prefixlen + newbits
    if newbits < 0 or length > network.max_prefixlen:
        raise FunctionError(
            f"insufficient address space to extend prefix of {network.prefixlen} by {newbits}"
        )
    if not 0 <= number < 1 << newbits:
        raise FunctionError(
            f"prefix extension of {newbits} does not accommodate a subnet numbered {number}"
        )
    start = int(network.network_address) + (number << (network.max_prefixlen - length))
    return type(network)((start, length))


def _cidrsubnet(prefix: str, newbits: Number, number: Number) -> str:
    network = _network(prefix)
    return str(_subnet(network, _whole(newbits), _whole(number)))


def _cidrsubnets(prefix: str, *newbits: Number) -> Value:
    try:
        network = _network(prefix)
    except FunctionError as error:
        raise ArgumentError(0, str(error)) from None
    at = int(network.network_address)
    end = at + network.num_addresses
    results: list[Value] = []
    for index, bits in enumerate(newbits, 1):
        extra = _whole(bits)
        if extra < 1:
            raise ArgumentError(index, "must extend prefix by at least one bit")
        length = network.prefixlen + extra
        if length > network.max_prefixlen:
            raise ArgumentError(index, f"not enough remaining address space for {extra} bits")
        size = 1 << (network.max_prefixlen - length)
        at = -(-at // size) * size
        if at + size > end:
            raise ArgumentError(
                index,
                f"not enough remaining address space for a subnet with a prefix of {length} bits",
            )
        results.append(str(type(network)((at, length))))
        at += size
    return List("string", results)


FUNCTIONS = {
    "cidrhost": Function(_cidrhost, (text("prefix"), num("hostnum"))),
    "cidrnetmask": Function(_cidrnetmask, (text("prefix"),)),
    "cidrsubnet": Function(_cidrsubnet, (text("prefix"), num("newbits"), num("netnum"))),
    "cidrsubnets": Function(_cidrsubnets, (text("prefix"),), rest=num("newbits")),
}
