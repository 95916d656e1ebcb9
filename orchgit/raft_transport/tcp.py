"""Messages over TCP: to each other server one connection out, from each one in, with mutual TLS.

A connection begins with a greeting: protocol, cluster, sender, receiver. With TLS the sender's
certificate has to name the sender's host; without TLS only loop-back is allowed. The sender need
not be a known member: a leader may be new, and a server that is added hears of it from the leader.
Messages that cannot be sent are dropped: Raft sends them again.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from orchgit.raft.messages import Message
from orchgit.raft_transport.inbound import PROTOCOL, Inbound
from orchgit.raft_transport.link import Greeting, TcpLink
from orchgit.raft_transport.poll_loop import PollLoop
from orchgit.raft_transport.tls import client_context, server_context
from orchgit.raft_transport.transport import Receive
from orchgit.wire.tls import PerVersion, TlsFiles

_MAX_LINKS = 64


class TcpTransport:
    """`name` is this member's address; it listens at `bind`, which is the same if not given."""

    def __init__(
        self, name: str, cluster: str, tls: TlsFiles | None = None, bind: str = ""
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._tls = PerVersion(tls, client_context) if tls else None
        self._links: dict[str, TcpLink] = {}
        self._to_flush: set[TcpLink] = set()
        accepting = PerVersion(tls, server_context) if tls else None
        self._inbound = Inbound(name, cluster, accepting, bind)

    def start(self, receive: Receive, loop: PollLoop) -> None:
        self._loop = loop
        self._inbound.start(receive, loop)

    @property
    def has_connections(self) -> bool:
        return bool(self._links) or self._inbound.has_peers

    def set_peers(self, addresses: Collection[str]) -> None:
        for address in addresses:
            self._link(address, is_member=True)
        for address, link in self._links.items():
            link.is_member = address in addresses

    def send(self, receiver: str, message: Message) -> bool:
        link = self._link(receiver)
        if link is None or not link.put(message):
            return False
        self._to_flush.add(link)
        return True

    def flush(self) -> None:
        for link in self._to_flush:
            link.flush()
        self._to_flush.clear()

    def tick(self) -> None:
        now_s = time.monotonic()
        for link in self._links.values():
            link.tick(now_s)
        self._inbound.tick(now_s)

    def _link(self, receiver: str, is_member: bool = False) -> TcpLink | None:
        """Returns the link, made when it is needed; None if there are too many."""
        link = self._links.get(receiver)
        if link is not None:
            return link
        if len(self._links) >= _MAX_LINKS:
            self._links = {name: one for name, one in self._links.items() if not one.has_ended}
            if len(self._links) >= _MAX_LINKS:
                return None
        greeting = Greeting(PROTOCOL, self._cluster, self._name, receiver)
        link = self._links[receiver] = TcpLink(greeting, self._tls, is_member, self._loop)
        return link

    def close(self) -> None:
        self._inbound.close()
        for link in self._links.values():
            link.close()
