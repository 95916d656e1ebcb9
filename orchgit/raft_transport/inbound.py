"""The other servers' connections to this one: greetings, and the messages that follow.

Each connection is greeted in a thread of its own, so that an unknown peer delays no member; from
then on the raft thread reads it, when there is something to read. Nothing but the structs of
`raft.messages` is ever decoded, and nothing is read before the greeting is accepted.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from functools import partial

import msgspec
import structlog

from orchgit.errors import OrchgitError, UnavailableError
from orchgit.host_port import is_loopback, split_host_port
from orchgit.raft import messages as raft_messages
from orchgit.raft_transport.frames import MAX_MESSAGE_BYTES, FrameParser
from orchgit.raft_transport.link import SILENCE_S, WOULD_BLOCK, Greeting, disable_delay, shut_down
from orchgit.raft_transport.poll_loop import PollLoop
from orchgit.raft_transport.tls import names_host, server_of
from orchgit.raft_transport.transport import Receive
from orchgit.wire.tls import PerVersion

_log = structlog.get_logger(component="raft")
PROTOCOL = 2
MAX_GREETING_BYTES = 1024
MAX_INBOUND = 256
_GREETING_S = 5.0
_READ_BYTES = 256 << 10
_READS = 16
"""Reads from one connection, before the others have their turn."""
_PEER_ERRORS = (OSError, msgspec.MsgspecError, RecursionError, ValueError, OrchgitError)


class GreetedPeer:
    """A connection whose greeting was accepted; on the raft thread."""

    def __init__(self, sender: str, channel: socket.socket, parser: FrameParser) -> None:
        self.sender = sender
        self.channel = channel
        self.heard_s = time.monotonic()
        self._parser = parser

    def read(self, receive: Receive, buffer: memoryview) -> None:
        """Reads what came, or much of it, by way of `buffer`; an error ends the connection."""
        self._deliver(receive)
        channel = self.channel
        for _ in range(_READS):
            try:
                size = channel.recv_into(buffer)
            except WOULD_BLOCK:
                return
            if not size:
                raise ConnectionError("closed by the other side")
            self.heard_s = time.monotonic()
            self._parser.feed(buffer[:size])
            self._deliver(receive)
            if isinstance(channel, ssl.SSLSocket):
                if not channel.pending():
                    return
            elif size < _READ_BYTES:
                return
        # What TLS has decrypted already does not make the socket readable.
        while isinstance(channel, ssl.SSLSocket) and (size := channel.pending()):
            self._parser.feed(channel.recv(size))
            self._deliver(receive)

    def _deliver(self, receive: Receive) -> None:
        while (data := self._parser.message()) is not None:
            receive(self.sender, raft_messages.decode(data))


class Inbound:
    """`name` is this member's address; it listens at `bind`, which is the same if not given."""

    def __init__(
        self, name: str, cluster: str, tls: PerVersion[ssl.SSLContext] | None, bind: str
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._ungreeted: dict[socket.socket, None] = {}
        """Connections without a greeting yet, in the order in which they came."""
        self._greeters: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._peers: dict[int, GreetedPeer] = {}
        """By descriptor; on the raft thread."""
        self._buffer = memoryview(bytearray(_READ_BYTES))
        """Kept: to allocate and free such a buffer for each read takes longer than the read."""
        self._listener = _listen(bind or name)
        self._acceptor = threading.Thread(target=self._accept, name="raft-accept", daemon=True)

    def start(self, receive: Receive, loop: PollLoop) -> None:
        self._receive = receive
        self._loop = loop
        self._acceptor.start()

    def close(self) -> None:
        """When the raft thread has ended."""
        self._closing = True
        shut_down(self._listener)
        self._listener.close()
        if self._acceptor.ident is not None:
            self._acceptor.join()
        for peer in list(self._peers.values()):
            self._disconnect(peer)
        with self._lock:
            greeters, left = list(self._greeters), list(self._open)
        for channel in left:
            shut_down(channel)
        for greeter in greeters:
            greeter.join()
        for channel in left:
            channel.close()

    # -- greetings: threads of their own ---------------------------------------------------------

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                continue
            greeter = threading.Thread(
                target=self._greet, args=(connection,), name="raft-greet", daemon=True
            )
            with self._lock:
                if len(self._open) >= MAX_INBOUND and not self._drop_oldest_ungreeted():
                    connection.close()
                    continue
                self._open.add(connection)
                self._ungreeted[connection] = None
                self._greeters.add(greeter)
            greeter.start()

    def _drop_oldest_ungreeted(self) -> bool:
        """Peers that connect and send no greeting, or send it very slowly, keep no member out."""
        oldest = next(iter(self._ungreeted), None)
        if oldest is None:
            return False
        del self._ungreeted[oldest]
        self._open.discard(oldest)
        shut_down(oldest)
        return True

    def _greet(self, connection: socket.socket) -> None:
        """Handles one connection; an error ends this connection and nothing else."""
        channel = connection
        try:
            connection.settimeout(_GREETING_S)
            if self._tls is not None:
                channel = secured = self._secured(self._tls.get(), connection)
                secured.do_handshake()
            peer = self._greeted(channel)
            disable_delay(channel)
            channel.setblocking(False)
            self._loop.call(partial(self._add_peer, peer))
        except _PEER_ERRORS as error:
            self._log_end(error)
            self._close(channel)
        finally:
            with self._lock:
                self._ungreeted.pop(channel, None)
                self._greeters.discard(threading.current_thread())

    def _secured(self, context: ssl.SSLContext, connection: socket.socket) -> ssl.SSLSocket:
        """Registers the TLS socket before its handshake, so that a slow one can be ended."""
        channel = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.discard(connection)
            self._open.add(channel)
            if connection in self._ungreeted:
                del self._ungreeted[connection]
                self._ungreeted[channel] = None
        return channel

    def _greeted(self, channel: socket.socket) -> GreetedPeer:
        parser = FrameParser(MAX_GREETING_BYTES)
        while (data := parser.message()) is None:
            read = channel.recv(MAX_GREETING_BYTES)
            if not read:
                raise ConnectionError("closed by the other side")
            parser.feed(read)
        greeting = msgspec.msgpack.decode(data, type=Greeting)
        self._check(channel, greeting)
        parser.limit = MAX_MESSAGE_BYTES
        return GreetedPeer(greeting.sender, channel, parser)

    def _check(self, channel: socket.socket, greeting: Greeting) -> None:
        """Raises ValueError unless the peer may send messages as the sender that it names."""
        if (greeting.protocol, greeting.cluster) != (PROTOCOL, self._cluster):
            raise ValueError(f"it is of cluster {greeting.cluster!r}, protocol {greeting.protocol}")
        if greeting.receiver != self._name or greeting.sender == self._name:
            raise ValueError(f"{greeting.sender!r} to {greeting.receiver!r}: not this server")
        host, _ = split_host_port(greeting.sender)
        if isinstance(channel, ssl.SSLSocket):
            certificate = channel.getpeercert() or {}
            if not names_host(certificate, host):
                raise ValueError(f"its certificate does not name {host!r}")
            if not server_of(certificate, self._cluster):
                raise ValueError(f"its certificate names no server of region {self._cluster!r}")
        elif not is_loopback(greeting.sender):
            raise ValueError(f"{host!r} is another machine, which needs a certificate")

    def _log_end(self, error: Exception) -> None:
        if not self._closing:
            _log.info("raft connection ended", peer=self._name, error=str(error))

    def _close(self, channel: socket.socket) -> None:
        channel.close()
        with self._lock:
            self._open.discard(channel)

    # -- greeted peers: the raft thread ----------------------------------------------------------

    @property
    def has_peers(self) -> bool:
        return bool(self._peers)

    def tick(self, now_s: float) -> None:
        """Ends connections that are silent for too long: members send signs of life."""
        for peer in list(self._peers.values()):
            if now_s - peer.heard_s > SILENCE_S:
                self._log_end(TimeoutError(f"{peer.sender} said nothing for {SILENCE_S:g} s"))
                self._disconnect(peer)

    def _add_peer(self, peer: GreetedPeer) -> None:
        descriptor = peer.channel.fileno()
        self._peers[descriptor] = peer
        self._loop.watch(descriptor, partial(self._read, peer))
        # Messages may have come together with the greeting.
        self._read(peer)

    def _read(self, peer: GreetedPeer) -> None:
        if self._peers.get(peer.channel.fileno()) is not peer:
            return
        try:
            peer.read(self._receive, self._buffer)
        except _PEER_ERRORS as error:
            self._log_end(error)
            self._disconnect(peer)

    def _disconnect(self, peer: GreetedPeer) -> None:
        descriptor = peer.channel.fileno()
        self._loop.forget(descriptor)
        self._peers.pop(descriptor)
        self._close(peer.channel)


def _listen(address: str) -> socket.socket:
    host, port = split_host_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise UnavailableError(
            f"cannot listen for the other servers on {address}: {error}; give this server another "
            "raft address, or stop what uses it"
        ) from error
