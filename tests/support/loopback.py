"""A `Place` on loop-back: free ports, no certificates, no faults."""

from __future__ import annotations

import socket

from orchgit.wire.tls import TlsFiles
from tests.support.ports import free_ports
from tests.support.real_cluster import Ports

_ADDRESS = "127.0.0.1"


class Loopback:
    interface = "lo"

    def __init__(self) -> None:
        self._ports: dict[str, Ports] = {}

    def address(self, host: str) -> str:
        return _ADDRESS

    def ports(self, host: str) -> Ports:
        """Found when they are first asked for, then always the same."""
        if host not in self._ports:
            self._ports[host] = Ports(*free_ports(3))
        return self._ports[host]

    def tls(self, host: str) -> TlsFiles | None:
        return None

    def command(self, host: str, *arguments: str) -> list[str]:
        return list(arguments)

    def command_at_hub(self, *arguments: str) -> list[str]:
        return list(arguments)

    def dial(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setblocking(False)
        return made
