"""The addresses that others are told: the bound ones, unless they mean nothing to other
machines.
"""

from __future__ import annotations

import socket

from orchgit.errors import InvalidInputError
from orchgit.host_port import is_host_port, is_wildcard, join_host_port, split_host_port

_OUTSIDE_V4 = "192.0.2.1"
_OUTSIDE_V6 = "2001:db8::1"
"""Addresses set aside for documentation: only the route to them is looked up, nothing is sent."""


def advertised(name: str, bound: str, given: str) -> str:
    """Returns the address that others use: `given` ("host" or "host:port"), or the bound one.

    A listener on every address of the machine, with nothing given, has that of the default route.
    Raises InvalidInputError where there is none, and for a `given` that cannot be reached.
    """
    bound_host, bound_port = split_host_port(bound)
    if not given:
        host = _of_default_route(name, bound_host) if is_wildcard(bound) else bound_host
        return join_host_port(host, bound_port)
    host, port = _parsed(name, given, bound_port)
    if is_wildcard(join_host_port(host, port)):
        raise InvalidInputError(
            f"cannot use advertise.{name} {given!r}: others cannot connect to it; give the address "
            "or the name of this machine"
        )
    return join_host_port(host, port)


def _parsed(name: str, given: str, default_port: int) -> tuple[str, int]:
    if given.count(":") > 1 and not given.startswith("["):
        return given, default_port
    if ":" not in given or given.endswith("]"):
        return given.strip("[]"), default_port
    if not is_host_port(given):
        raise InvalidInputError(f"cannot use advertise.{name} {given!r}: write host or host:port")
    return split_host_port(given)


def _of_default_route(name: str, wildcard: str) -> str:
    v6 = ":" in wildcard
    family = socket.AF_INET6 if v6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_OUTSIDE_V6 if v6 else _OUTSIDE_V4, 9))
            return str(probe.getsockname()[0])
        except OSError as error:
            raise InvalidInputError(
                f"cannot tell others an address for {name}: it listens on every address, and this "
                f"machine has no default route; set advertise.{name}"
            ) from error
