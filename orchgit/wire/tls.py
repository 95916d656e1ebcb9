"""Mutual TLS for the internal RPC: who may speak is decided by certificates, not by addresses.

Without files the connection is plain text; `check_plain` allows that on loopback only, so an open
port is never an accident.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import grpc

from orchgit.errors import InvalidInputError
from orchgit.host_port import is_loopback

T = TypeVar("T")


class FilesVersion:
    """Counts how often the files were replaced by others, for those who have read them."""

    def __init__(self) -> None:
        self.number = 0


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: the authority both sides must be signed by, and this side's own pair."""

    ca: Path
    cert: Path
    key: Path
    version: FilesVersion = field(default_factory=FilesVersion, compare=False, repr=False)


class PerVersion(Generic[T]):
    """What is made of certificate files, made anew for each version of them."""

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], T]) -> None:
        self._files = files
        self._make = make
        self._number = files.version.number
        self._made = make(files)

    def get(self) -> T:
        """The earlier one for as long as the new files cannot be used. May be called by any
        thread."""
        number = self._files.version.number
        if number != self._number:
            with contextlib.suppress(OSError, InvalidInputError):
                self._made = self._make(self._files)
            self._number = number
        return self._made


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Clients without a certificate of the authority are refused. Each handshake takes the files
    of the newest version."""
    fetch = NewConfigurations(files)
    return grpc.dynamic_ssl_server_credentials(
        fetch.first, fetch, require_client_authentication=True
    )


class NewConfigurations:
    """What gRPC asks at each handshake, on threads of its own: the configuration if the files have
    changed, else None.

    gRPC frees the configuration in use when it is given another one, although handshakes on other
    threads may hold it (grpc/grpc#36693): the process ends by a segmentation fault. So gRPC is
    given one only where it has to be.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._configurations = PerVersion(files, _server_configuration)
        self._lock = threading.Lock()
        self.first = self._given = self._configurations.get()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        with self._lock:
            newest = self._configurations.get()
            if newest is self._given:
                return None
            self._given = newest
            return newest


def _server_configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    pair = (files.key.read_bytes(), files.cert.read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], files.ca.read_bytes())


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


def check_plain(address: str) -> None:
    """Raises InvalidInputError unless `address` (host:port) is loopback."""
    if not is_loopback(address):
        raise InvalidInputError(
            f"cannot serve RPC on {address} without TLS: set tls files or bind to 127.0.0.1"
        )
