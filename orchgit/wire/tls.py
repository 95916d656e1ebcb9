"""Mutual TLS for the internal RPC: who may speak is decided by certificates, not by addresses.

Without files the connection is plain text; `check_plain` allows that on loopback only, so an open
port is never an accident.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import grpc

from orchgit.errors import InvalidInputError


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: the authority both sides must be signed by, and this side's own pair."""

    ca: Path
    cert: Path
    key: Path


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Clients without a certificate of the authority are refused."""
    pair = (files.key.read_bytes(), files.cert.read_bytes())
    return grpc.ssl_server_credentials(
        [pair], root_certificates=files.ca.read_bytes(), require_client_auth=True
    )


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=files.ca.read_bytes(),
        private_key=files.key.read_bytes(),
        certificate_chain=files.cert.read_bytes(),
    )


def names_server(names: Iterable[str], region: str) -> bool:
    """Whether a certificate's names make it that of a server: `server.REGION.` and any domain.

    Agents' certificates are of the same authority, and must not do what servers may.
    """
    return any(name.startswith(f"server.{region}.") for name in names)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches `address` (host:port)."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_plain(address: str) -> None:
    """Raises InvalidInputError unless `address` (host:port) is loopback."""
    if not is_loopback(address):
        raise InvalidInputError(
            f"cannot serve RPC on {address} without TLS: set tls files or bind to 127.0.0.1"
        )
