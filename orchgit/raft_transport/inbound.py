"""The other servers' connections to this one: who may speak, and what they say.

Each connection is greeted in a thread of its own, so that strangers delay nobody; from then on the
raft thread reads it, when there is something to read. Nothing but the structs of `raft_messages`
is ever decoded, and nothing is read before the greeting is accepted.
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
from orchgit.raft_transport.link import NOT_NOW, SILENCE_S, Greeting, shut, without_delay
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
"""Of one connection, until the others have their turn."""
_NONSENSE = (OSError, msgspec.MsgspecError, RecursionError, ValueError, OrchgitError)


class Speaker:
    """One connection that was greeted; of the raft thread."""

    def __init__(self, sender: str, channel: socket.socket, parser: FrameParser) -> None:
        self.sender = sender
        self.channel = channel
        self.heard_s = time.monotonic()
        self._parser = parser

    def hear(self, receive: Receive, room: memoryview) -> None:
        """All that came, or much of it, read into `room`; an error ends the connection."""
        self._tell(receive)
        for _ in range(_READS):
            try:
                size = self.channel.recv_into(room)
            except NOT_NOW:
                return
            if not size:
                raise ConnectionError("closed by the other side")
            self.heard_s = time.monotonic()
            self._parser.feed(room[:size])
            self._tell(receive)
            if not self._has_more(size):
                return
        # What TLS has decrypted already wakes nobody.
        while isinstance(self.channel, ssl.SSLSocket) and (size := self.channel.pending()):
            self._parser.feed(self.channel.recv(size))
            self._tell(receive)

    def _has_more(self, size: int) -> bool:
        if isinstance(self.channel, ssl.SSLSocket):
            return self.channel.pending() > 0
        return size == _READ_BYTES

    def _tell(self, receive: Receive) -> None:
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
        self._strangers: dict[socket.socket, None] = {}
        """Those that have not greeted yet, in the order in which they came."""
        self._greeters: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._speakers: dict[int, Speaker] = {}
        """By descriptor; of the raft thread."""
        self._room = memoryview(bytearray(_READ_BYTES))
        """Kept: a buffer of that size for each read would be asked of the system, and given back,
        each time, which takes longer than reading."""
        self._listener = _listen(bind or name)
        self._acceptor = threading.Thread(target=self._accept, name="raft-accept", daemon=True)

    def start(self, receive: Receive, loop: PollLoop) -> None:
        self._receive = receive
        self._loop = loop
        self._acceptor.start()

    def close(self) -> None:
        """When the raft thread has ended."""
        self._closing = True
        shut(self._listener)
        self._listener.close()
        if self._acceptor.ident is not None:
            self._acceptor.join()
        for speaker in list(self._speakers.values()):
            self._part_from(speaker)
        with self._lock:
            greeters, left = list(self._greeters), list(self._open)
        for channel in left:
            shut(channel)
        for greeter in greeters:
            greeter.join()
        for channel in left:
            channel.close()

    # -- strangers: threads of their own ---------------------------------------------------------

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
                if len(self._open) >= MAX_INBOUND and not self._drop_oldest_stranger():
                    connection.close()
                    continue
                self._open.add(connection)
                self._strangers[connection] = None
                self._greeters.add(greeter)
            greeter.start()

    def _drop_oldest_stranger(self) -> bool:
        """Who connects and says nothing, or says it very slowly, keeps no member out."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        del self._strangers[oldest]
        self._open.discard(oldest)
        shut(oldest)
        return True

    def _greet(self, connection: socket.socket) -> None:
        """One connection; whatever is wrong with it ends it, and nothing else."""
        channel = connection
        try:
            connection.settimeout(_GREETING_S)
            if self._tls is not None:
                channel = secured = self._secured(self._tls.get(), connection)
                secured.do_handshake()
            speaker = self._greeted(channel)
            without_delay(channel)
            channel.setblocking(False)
            self._loop.call(partial(self._listen_to, speaker))
        except _NONSENSE as error:
            self._say_ended(error)
            channel.close()
            self._forget(channel)
        finally:
            with self._lock:
                self._strangers.pop(channel, None)
                self._greeters.discard(threading.current_thread())

    def _secured(self, context: ssl.SSLContext, connection: socket.socket) -> ssl.SSLSocket:
        """Known before its handshake, so that one that takes too long can be ended."""
        channel = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.discard(connection)
            self._open.add(channel)
            if connection in self._strangers:
                del self._strangers[connection]
                self._strangers[channel] = None
        return channel

    def _greeted(self, channel: socket.socket) -> Speaker:
        parser = FrameParser(MAX_GREETING_BYTES)
        while (data := parser.message()) is None:
            read = channel.recv(MAX_GREETING_BYTES)
            if not read:
                raise ConnectionError("closed by the other side")
            parser.feed(read)
        sender = self._admitted(channel, msgspec.msgpack.decode(data, type=Greeting))
        parser.limit = MAX_MESSAGE_BYTES
        return Speaker(sender, channel, parser)

    def _admitted(self, channel: socket.socket, greeting: Greeting) -> str:
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
        return greeting.sender

    def _say_ended(self, error: Exception) -> None:
        if not self._closing:
            _log.info("raft connection ended", peer=self._name, error=str(error))

    def _forget(self, channel: socket.socket) -> None:
        with self._lock:
            self._open.discard(channel)

    # -- those that were greeted: the raft thread ------------------------------------------------

    @property
    def has_speakers(self) -> bool:
        return bool(self._speakers)

    def tick(self, now_s: float) -> None:
        """Members say that they are there, if nothing else."""
        for speaker in list(self._speakers.values()):
            if now_s - speaker.heard_s > SILENCE_S:
                self._say_ended(TimeoutError(f"{speaker.sender} said nothing for {SILENCE_S:g} s"))
                self._part_from(speaker)

    def _listen_to(self, speaker: Speaker) -> None:
        descriptor = speaker.channel.fileno()
        self._speakers[descriptor] = speaker
        self._loop.watch(descriptor, partial(self._hear, speaker))
        # It may have said more together with its greeting.
        self._hear(speaker)

    def _hear(self, speaker: Speaker) -> None:
        if self._speakers.get(speaker.channel.fileno()) is not speaker:
            return
        try:
            speaker.hear(self._receive, self._room)
        except _NONSENSE as error:
            self._say_ended(error)
            self._part_from(speaker)

    def _part_from(self, speaker: Speaker) -> None:
        descriptor = speaker.channel.fileno()
        self._loop.forget(descriptor)
        self._speakers.pop(descriptor)
        speaker.channel.close()
        self._forget(speaker.channel)


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
