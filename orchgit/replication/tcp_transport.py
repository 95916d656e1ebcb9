"""Messages over TCP: to each member one connection out, from each one in, with mutual TLS.

A connection begins with a greeting: protocol, cluster, who is speaking, who is meant. With TLS the
speaker's certificate has to name the host it claims to be; without, only loop-back is allowed.
What cannot be sent is dropped: Raft sends it again. Nothing but the structs of `raft_messages` is
ever decoded, and nothing is read before the greeting is accepted.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from orchgit.replication import raft_messages
from orchgit.replication.raft_messages import Message
from orchgit.replication.raft_tls import (
    client_context,
    names_host,
    server_context,
    split_address,
)
from orchgit.replication.transport import Receive
from orchgit.wire.tls import TlsFiles

_LOG = logging.getLogger(__name__)
PROTOCOL = 1
MAX_FRAME_BYTES = 272 << 20
MAX_GREETING_BYTES = 1024
_MAX_QUEUED = 4096
_MAX_INBOUND = 64
_CONNECT_S = 1.0
_GREETING_S = 5.0
_SILENCE_S = 10.0
_RETRY_S = (0.02, 0.5)


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    protocol: int
    cluster: str
    sender: str
    receiver: str


class TcpTransport:
    """`name` is this member's address, and where it listens."""

    def __init__(
        self, name: str, peers: Sequence[str], cluster: str, tls: TlsFiles | None = None
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._peers = frozenset(peers)
        self._server_tls = server_context(tls) if tls else None
        client_tls = client_context(tls) if tls else None
        self._links = {
            peer: _Link(Greeting(PROTOCOL, cluster, name, peer), client_tls) for peer in peers
        }
        self._inbound: set[socket.socket] = set()
        self._readers: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closing = False

    def start(self, receive: Receive) -> None:
        self._receive = receive
        host, port = split_address(self._name)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=64)
        self._acceptor = threading.Thread(target=self._accept, name="raft-accept", daemon=True)
        self._acceptor.start()
        for link in self._links.values():
            link.start()

    def send(self, receiver: str, message: Message) -> None:
        self._links[receiver].put(message)

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links.values():
            link.close()
        self._acceptor.join()
        with self._lock:
            readers = list(self._readers)
            for connection in self._inbound:
                _shut(connection)
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
                if len(self._inbound) >= _MAX_INBOUND:
                    connection.close()
                    continue
                self._inbound.add(connection)
                self._readers.add(reader)
            reader.start()

    def _serve(self, connection: socket.socket) -> None:
        """One connection; whatever is wrong with it ends it, and nothing else."""
        channel = connection
        try:
            connection.settimeout(_GREETING_S)
            if self._server_tls is not None:
                channel = self._server_tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._inbound.add(channel)
            sender = self._greeted(channel)
            _without_delay(channel)
            channel.settimeout(_SILENCE_S)
            while not self._closing:
                message = raft_messages.decode(_read_frame(channel, MAX_FRAME_BYTES))
                self._receive(sender, message)
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            if not self._closing:
                _LOG.info("a raft connection to %s ended: %s", self._name, error)
        finally:
            channel.close()
            connection.close()
            with self._lock:
                self._inbound -= {connection, channel}
                self._readers.discard(threading.current_thread())

    def _greeted(self, channel: socket.socket) -> str:
        greeting = msgspec.msgpack.decode(_read_frame(channel, MAX_GREETING_BYTES), type=Greeting)
        if (greeting.protocol, greeting.cluster) != (PROTOCOL, self._cluster):
            raise ValueError(f"it is of cluster {greeting.cluster!r}, {greeting.protocol}")
        if greeting.receiver != self._name or greeting.sender not in self._peers:
            raise ValueError(f"{greeting.sender!r} to {greeting.receiver!r}: no such members")
        if isinstance(channel, ssl.SSLSocket):
            host, _ = split_address(greeting.sender)
            if not names_host(channel.getpeercert() or {}, host):
                raise ValueError(f"its certificate does not name {host!r}")
        return greeting.sender


class _Link:
    """The way to one member: a queue, a thread, and a connection that is made again when lost."""

    def __init__(self, greeting: Greeting, tls: ssl.SSLContext | None) -> None:
        self._greeting = greeting
        self._tls = tls
        self._queue: deque[Message] = deque(maxlen=_MAX_QUEUED)
        self._changed = threading.Condition()
        self._channel: socket.socket | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"raft-to-{greeting.receiver}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def put(self, message: Message) -> None:
        """Dropped while there is no connection: an old message helps nobody."""
        with self._changed:
            if self._channel is not None:
                self._queue.append(message)
                self._changed.notify()

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._changed.notify()
            if self._channel is not None:
                _shut(self._channel)
        self._thread.join()

    def _run(self) -> None:
        wait_s = _RETRY_S[0]
        while not self._closing.is_set():
            try:
                channel = self._connect()
            except (OSError, ValueError) as error:
                _LOG.debug("cannot reach raft member %s: %s", self._greeting.receiver, error)
                self._closing.wait(wait_s)
                wait_s = min(2 * wait_s, _RETRY_S[1])
                continue
            wait_s = _RETRY_S[0]
            with contextlib.suppress(OSError):
                self._pump(channel)
            with self._changed:
                self._channel = None
                self._queue.clear()
            channel.close()
            self._closing.wait(_RETRY_S[0])

    def _connect(self) -> socket.socket:
        host, port = split_address(self._greeting.receiver)
        channel = socket.create_connection((host, port), _CONNECT_S)
        try:
            if self._tls is not None:
                channel = self._tls.wrap_socket(channel, server_hostname=host)
            _without_delay(channel)
            channel.settimeout(_SILENCE_S)
            _write_frame(channel, msgspec.msgpack.encode(self._greeting))
        except BaseException:
            channel.close()
            raise
        with self._changed:
            self._channel = channel
        return channel

    def _pump(self, channel: socket.socket) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing.is_set():
                    self._changed.wait()
                if self._closing.is_set():
                    return
                messages = list(self._queue)
                self._queue.clear()
            for message in messages:
                _write_frame(channel, raft_messages.encode(message))


def _without_delay(channel: socket.socket) -> None:
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _shut(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)


def _write_frame(channel: socket.socket, data: bytes) -> None:
    channel.sendall(len(data).to_bytes(4, "big") + data)


def _read_frame(channel: socket.socket, limit: int) -> bytes:
    length = int.from_bytes(_read(channel, 4), "big")
    if length > limit:
        raise ValueError(f"a frame of {length} bytes")
    return _read(channel, length)


def _read(channel: socket.socket, size: int) -> bytes:
    """Memory grows with what has come, not with what was announced."""
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError("closed by the other side")
        data += part
    return bytes(data)
