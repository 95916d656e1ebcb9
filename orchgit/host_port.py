"""Addresses in the form host:port, where the host may be an IPv6 address in brackets."""

from __future__ import annotations

import ipaddress

from orchgit.errors import InvalidInputError

_MAX_PORT = 65535


def split_host_port(address: str) -> tuple[str, int]:
    """The host, without brackets, and the port. Raises InvalidInputError for another form."""
    host, _, port = address.rpartition(":")
    if not host or not _is_port(port):
        raise InvalidInputError(
            f"cannot use address {address!r}: write it as host:port, for example 127.0.0.1:4646"
        )
    return host_of(address), int(port)


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_host_port(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return bool(host) and _is_port(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches `address` (host:port)."""
    return host_of(address) == "localhost" or _has(address, "is_loopback")


def is_wildcard(address: str) -> bool:
    """Whether `address` (host:port) is for listening on every address of this machine."""
    return _has(address, "is_unspecified")


def host_of(address: str) -> str:
    """Returns the host of `address` (host:port), without brackets; '' if there is none."""
    return address.rpartition(":")[0].strip("[]")


def _is_port(text: str) -> bool:
    return len(text) <= 5 and text.isascii() and text.isdecimal() and int(text) <= _MAX_PORT


def _has(address: str, quality: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host_of(address)), quality))
    except ValueError:
        return False
