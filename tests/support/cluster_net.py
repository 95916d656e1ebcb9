"""A `Place` in network namespaces: every connection between two hosts passes a link with faults."""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchgit.wire.tls import TlsFiles
from tests.support.certificates import Authority
from tests.support.fault_proxy import Faults, Link
from tests.support.netns import HUB, Network, missing
from tests.support.real_cluster import Ports, RealCluster, agent_names, server_names

_PORTS = Ports()
_FIRST_AGENT = 11


class FaultyNetwork:
    """Hosts, certificates, and links: `link("s1", "s2")` is what s1 opens to s2."""

    interface = "eth0"

    def __init__(self, directory: Path, servers: int, agents: int, seed: int) -> None:
        self._network = Network()
        self._chance = random.Random(seed)
        self._links: dict[tuple[str, str], Link] = {}
        self._servers, self._agents = server_names(servers), agent_names(agents)
        authority = Authority(directory / "ca")
        self._tls: dict[str, TlsFiles] = {}
        for number, host in [*enumerate(self._servers, 1), *enumerate(self._agents, _FIRST_AGENT)]:
            address = self._network.add_host(host, number)
            self._tls[host] = authority.issue(directory / host / "tls", address, "127.0.0.1")
        self._connect_all()

    def _connect_all(self) -> None:
        hosts = [*self._servers, *self._agents]
        for source in hosts:
            for target in hosts:
                if source != target and not {source, target} <= set(self._agents):
                    self._connect(source, target)

    def _connect(self, source: str, target: str) -> None:
        """The target's address is at the source too, with a proxy behind it."""
        address = self._network.address(target)
        self._network.claim(source, address)
        link = self._links[source, target] = Link(self._chance)
        for port in self._served(target):
            listener = self._network.socket_at(source)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            link.listen(listener, (address, port), self.dial)

    def _served(self, host: str) -> tuple[int, ...]:
        if host in self._servers:
            return _PORTS.http, _PORTS.rpc, _PORTS.raft
        return (_PORTS.http,)

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        self._network.close()

    # -- a place -------------------------------------------------------------------------------

    def address(self, host: str) -> str:
        return self._network.address(host)

    def ports(self, host: str) -> Ports:
        return _PORTS

    def tls(self, host: str) -> TlsFiles | None:
        return self._tls[host]

    def command(self, host: str, *arguments: str) -> list[str]:
        return self._network.command(host, *arguments)

    def dial(self) -> socket.socket:
        return self._network.socket_at(HUB)

    def pids(self, host: str) -> list[int]:
        """Every process of that host."""
        return self._network.pids(host)

    def command_at_hub(self, *arguments: str) -> list[str]:
        """A program that reaches every host's own address."""
        return self._network.command(HUB, *arguments)

    # -- faults --------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        return self._links[source, target]

    def set_cable(self, host: str, up: bool) -> None:
        """Out: nothing comes to the host or from it, and nobody is told."""
        self._network.set_link(host, up)

    def block(self, source: str, target: str) -> None:
        """What `source` says does not come to `target`; the other way is open."""
        blocked = Faults(blocked=True)
        self._links[source, target].there.set(blocked)
        self._links[target, source].back.set(blocked)

    def part(self, one: Iterable[str], other: Iterable[str]) -> None:
        """Two sides that hear nothing of each other; connections stay open, and say nothing."""
        others = list(other)
        for here in one:
            for there in others:
                if (here, there) in self._links:
                    self.block(here, there)
                    self.block(there, here)

    def spoil(self, faults: Faults) -> None:
        """Every link between servers, both ways."""
        for (source, target), link in self._links.items():
            if {source, target} <= set(self._servers):
                link.there.set(faults)
                link.back.set(faults)

    def mend(self) -> None:
        """Everything works again."""
        for link in self._links.values():
            link.mend()
        for host in [*self._servers, *self._agents]:
            self.set_cable(host, up=True)


@asynccontextmanager
async def faulty_cluster(
    directory: Path,
    *,
    servers: int = 3,
    agents: int = 0,
    seed: int = 1,
    server_options: dict[str, Any] | None = None,
) -> AsyncIterator[tuple[RealCluster, FaultyNetwork]]:
    """A running cluster; the test is skipped where there can be no network namespaces."""
    if reason := missing():
        pytest.skip(reason)
    network = FaultyNetwork(directory, servers, agents, seed)
    try:
        cluster = RealCluster(network, directory, servers, agents, server_options)
        try:
            await cluster.start()
            yield cluster, network
        finally:
            await cluster.close()
    finally:
        await network.close()
