"""On how many connections each client has calls: by the address that it comes from.

gRPC accepts connections itself and counts none, so a connection counts from its first call on. One
without calls costs a descriptor, and is closed where its handshake takes too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from orchgit.errors import UnavailableError


class PeerLimit:
    """`most`: connections of one address with calls at a time; 0: any number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: dict[str, Counter[str]] = {}
        """By address: calls of each connection."""

    @contextmanager
    def call(self, peer: str) -> Iterator[None]:
        """During a call of `peer`, in gRPC's form (`ipv4:10.0.0.1:4321`). Raises UnavailableError
        if its address has calls on as many other connections as it may have."""
        address, _, port = peer.rpartition(":")
        ports = self._calls.setdefault(address, Counter())
        if self._most and port not in ports and len(ports) >= self._most:
            raise UnavailableError(
                f"cannot take a call on another connection from {address.partition(':')[2]}: it "
                "uses as many as limits.rpc_max_conns_per_client allows"
            )
        ports[port] += 1
        try:
            yield
        finally:
            ports[port] -= 1
            if not ports[port]:
                del ports[port]
            if not ports:
                self._calls.pop(address, None)
