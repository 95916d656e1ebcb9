"""Messages over TCP: to each other server one connection out, from each one in, with mutual TLS.

A connection begins with a greeting: protocol, cluster, who is speaking, who is meant. With TLS the
speaker's certificate has to name the host it claims to be; without, only loop-back is allowed. It
need not be a member that is known here: a leader may be new, and whoever is taken in hears of that
from the leader. What cannot be sent is dropped: Raft sends it again. Nothing but the structs of
`raft_messages` is ever decoded, and nothing is read before the greeting is accepted.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Collection

import msgspec

from orchgit.errors import OrchgitError, UnavailableError
from orchgit.replication import raft_messages
from orchgit.replication.raft_messages import Message
from orchgit.replication.raft_tls import (
    client_context,
    is_loopback,
    names_host,
    server_context,
    server_of,
    split_address,
)
from orchgit.replication.tcp_frames import FrameReader
from orchgit.replication.tcp_link import SILENCE_S, Greeting, TcpLink, shut, without_delay
from orchgit.replication.transport import Receive
from orchgit.wire.tls import TlsFiles

_LOG = logging.getLogger(__name__)
PROTOCOL = 2
MAX_GREETING_BYTES = 1024
_MAX_INBOUND = 256
_MAX_LINKS = 64
_GREETING_S = 5.0


class TcpTransport:
    """`name` is this member's address; it listens at `bind`, which is the same if not given."""

    def __init__(
        self, name: str, cluster: str, tls: TlsFiles | None = None, bind: str = ""
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._server_tls = server_context(tls) if tls else None
        self._client_tls = client_context(tls) if tls else None
        self._links: dict[str, TcpLink] = {}
        self._inbound: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}
        """Those that have not greeted yet, in the order in which they came."""
        self._readers: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._listener = _listen(bind or name)
        self._acceptor = threading.Thread(target=self._accept, name="raft-accept", daemon=True)

    def start(self, receive: Receive) -> None:
        self._receive = receive
        self._acceptor.start()

    # -- outbound --------------------------------------------------------------------------------

    def set_peers(self, addresses: Collection[str]) -> None:
        with self._lock:
            for address in addresses:
                self._link(address, is_member=True)
            for address, link in self._links.items():
                link.is_member = address in addresses

    def send(self, receiver: str, message: Message) -> bool:
        with self._lock:
            link = self._link(receiver)
        return link is not None and link.put(message)

    def _link(self, receiver: str, is_member: bool = False) -> TcpLink | None:
        """Made when it is needed; no more than a cluster could have use for."""
        link = self._links.get(receiver)
        if link is not None and not link.has_ended:
            return link
        if self._closing or (len(self._links) >= _MAX_LINKS and not self._forget_ended()):
            return None
        greeting = Greeting(PROTOCOL, self._cluster, self._name, receiver)
        link = self._links[receiver] = TcpLink(greeting, self._client_tls, is_member)
        return link

    def _forget_ended(self) -> bool:
        self._links = {name: one for name, one in self._links.items() if not one.has_ended}
        return len(self._links) < _MAX_LINKS

    def close(self) -> None:
        with self._lock:
            self._closing = True
            links = list(self._links.values())
        shut(self._listener)
        self._listener.close()
        for link in links:
            link.close()
        for link in links:
            link.join()
        if self._acceptor.ident is not None:
            self._acceptor.join()
        with self._lock:
            readers = list(self._readers)
            for connection in self._inbound:
                shut(connection)
        for reader in readers:
            reader.join()

    # -- inbound ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                continue
            reader = threading.Thread(
                target=self._serve, args=(connection,), name="raft-read", daemon=True
            )
            with self._lock:
                if len(self._inbound) >= _MAX_INBOUND and not self._drop_oldest_stranger():
                    connection.close()
                    continue
                self._inbound.add(connection)
                self._strangers[connection] = None
                self._readers.add(reader)
            reader.start()

    def _drop_oldest_stranger(self) -> bool:
        """Who connects and says nothing, or says it very slowly, keeps no member out."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        del self._strangers[oldest]
        self._inbound.discard(oldest)
        shut(oldest)
        return True

    def _serve(self, connection: socket.socket) -> None:
        """One connection; whatever is wrong with it ends it, and nothing else."""
        channel = connection
        try:
            connection.settimeout(_GREETING_S)
            if self._server_tls is not None:
                channel = secured = self._secured(self._server_tls, connection)
                secured.do_handshake()
            frames = FrameReader(channel)
            sender = self._greeted(channel, frames.message(MAX_GREETING_BYTES))
            with self._lock:
                self._strangers.pop(channel, None)
            without_delay(channel)
            channel.settimeout(SILENCE_S)
            while not self._closing:
                self._receive(sender, raft_messages.decode(frames.message()))
        except (OSError, msgspec.MsgspecError, RecursionError, ValueError, OrchgitError) as error:
            if not self._closing:
                _LOG.info("a raft connection to %s ended: %s", self._name, error)
        finally:
            channel.close()
            connection.close()
            with self._lock:
                self._inbound -= {connection, channel}
                self._strangers.pop(channel, None)
                self._readers.discard(threading.current_thread())

    def _secured(self, context: ssl.SSLContext, connection: socket.socket) -> ssl.SSLSocket:
        """Known before its handshake, so that one that takes too long can be ended."""
        channel = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._inbound.discard(connection)
            self._inbound.add(channel)
            if connection in self._strangers:
                del self._strangers[connection]
                self._strangers[channel] = None
        return channel

    def _greeted(self, channel: socket.socket, data: bytes) -> str:
        greeting = msgspec.msgpack.decode(data, type=Greeting)
        if (greeting.protocol, greeting.cluster) != (PROTOCOL, self._cluster):
            raise ValueError(f"it is of cluster {greeting.cluster!r}, protocol {greeting.protocol}")
        if greeting.receiver != self._name or greeting.sender == self._name:
            raise ValueError(f"{greeting.sender!r} to {greeting.receiver!r}: not this server")
        host, _ = split_address(greeting.sender)
        if isinstance(channel, ssl.SSLSocket):
            certificate = channel.getpeercert() or {}
            if not names_host(certificate, host):
                raise ValueError(f"its certificate does not name {host!r}")
            if not server_of(certificate, self._cluster):
                raise ValueError(f"its certificate names no server of region {self._cluster!r}")
        elif not is_loopback(greeting.sender):
            raise ValueError(f"{host!r} is another machine, which needs a certificate")
        return greeting.sender


def _listen(address: str) -> socket.socket:
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise UnavailableError(
            f"cannot listen for the other servers on {address}: {error}; give this server another "
            "raft address, or stop what uses it"
        ) from error
