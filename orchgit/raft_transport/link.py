"""The connection to one other server, which is made again when it is lost, and its two queues.

All of it belongs to the raft thread, which sends when it is awake anyway. Only connecting, with its
handshake, may take long, so it has a thread of its own.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections import deque

import msgspec
import structlog

from orchgit.backoff import backoff_s
from orchgit.host_port import split_host_port
from orchgit.raft import messages as raft_messages
from orchgit.raft.messages import Message
from orchgit.raft_transport.frames import LAST_PART, PART, PART_BYTES, STILL_HERE, frame
from orchgit.raft_transport.poll_loop import PollLoop
from orchgit.wire.tls import PerVersion

_log = structlog.get_logger(component="raft")
_MAX_QUEUED = 4096
_MAX_QUEUED_BYTES = 64 << 20
_CONNECT_S = 1.0
_RETRY_S = (0.02, 0.5)
_STILL_HERE_S = 3.0
SILENCE_S = 10.0
LINGER_S = 15.0
"""A connection to a server that is not a member is kept for so long after the last message."""
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The errors of a non-blocking socket that has nothing to read, or no room to write."""


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    protocol: int
    cluster: str
    sender: str
    receiver: str


class TcpLink:
    """`is_member`: kept open until `close`."""

    def __init__(
        self,
        greeting: Greeting,
        tls: PerVersion[ssl.SSLContext] | None,
        is_member: bool,
        loop: PollLoop,
    ) -> None:
        self._greeting = greeting
        self._tls = tls
        self._loop = loop
        self.is_member = is_member
        self._quick: deque[Message] = deque()
        self._slow: deque[Message] = deque()
        self._slow_bytes = 0
        self._large = memoryview(b"")
        """What is left of the large message that is being sent."""
        self._rest = memoryview(b"")
        """Bytes that the socket did not take yet."""
        self._channel: socket.socket | None = None
        self._is_full = False
        self._used_s = self._moved_s = time.monotonic()
        self._retry_at_s = 0.0
        self._failures = 0
        """Attempts to connect since the last connection."""
        self._connecting: threading.Thread | None = None
        self._made: socket.socket | None = None
        """Connected, and not yet taken over by the raft thread."""
        self._begin_to_connect()

    def put(self, message: Message) -> bool:
        """Queues a message for the next `flush`. Returns False if it is dropped: there is no
        connection (an old message would be useless), or too much waits."""
        size = raft_messages.size_of(message)
        self._used_s = time.monotonic()
        full = len(self._slow) >= _MAX_QUEUED or len(self._quick) >= _MAX_QUEUED
        too_much = self._slow and self._slow_bytes + size > _MAX_QUEUED_BYTES
        if self._channel is None or full or too_much:
            return False
        if raft_messages.may_overtake(message):
            self._quick.append(message)
        else:
            self._slow.append(message)
            self._slow_bytes += size
        return True

    def flush(self) -> None:
        """Sends what the connection takes now; the rest follows when it takes more."""
        if self._channel is None:
            return
        try:
            while self._rest or self._take_next():
                sent = self._channel.send(self._rest)
                self._rest = self._rest[sent:]
                self._moved_s = time.monotonic()
        except WOULD_BLOCK:
            self._watch(is_full=True)
        except OSError as error:
            self._lost(error)
        else:
            self._watch(is_full=False)

    def tick(self, now_s: float) -> None:
        """Sends a sign of life, ends a stuck connection, connects again, as the time asks for."""
        if not self._is_wanted(now_s):
            self._disconnect()
        elif self._channel is None:
            if self._connecting is None and now_s >= self._retry_at_s:
                self._begin_to_connect()
        elif self._rest and now_s - self._moved_s > SILENCE_S:
            self._lost(TimeoutError(f"it took nothing for {SILENCE_S:g} s"))
        elif not self._rest and now_s - self._moved_s > _STILL_HERE_S:
            self._rest = memoryview(STILL_HERE)
            self.flush()

    @property
    def has_ended(self) -> bool:
        """It was not needed for long."""
        idle = self._channel is None and self._connecting is None
        return idle and not self._is_wanted(time.monotonic())

    def close(self) -> None:
        """When the raft thread has ended."""
        self._disconnect()
        if self._connecting is not None:
            self._connecting.join()
        if self._made is not None:
            self._made.close()

    def _is_wanted(self, now_s: float) -> bool:
        return self.is_member or now_s - self._used_s < LINGER_S

    # -- what comes next -------------------------------------------------------------------------

    def _take_next(self) -> bool:
        """Whole messages, then a part of a large one: quick messages pass between its parts."""
        frames = [frame(raft_messages.encode(message)) for message in self._quick]
        self._quick.clear()
        size = 0
        while self._slow and not self._large and size < PART_BYTES:
            slow = self._slow.popleft()
            self._slow_bytes -= raft_messages.size_of(slow)
            data = raft_messages.encode(slow)
            size += len(data)
            if len(data) <= PART_BYTES:
                frames.append(frame(data))
            else:
                self._large = memoryview(data)
        if self._large:
            part, self._large = self._large[:PART_BYTES], self._large[PART_BYTES:]
            frames.append(frame(part, PART if self._large else LAST_PART))
        self._rest = memoryview(b"".join(frames))
        return bool(self._rest)

    # -- the connection --------------------------------------------------------------------------

    def _begin_to_connect(self) -> None:
        name = f"raft-to-{self._greeting.receiver}"
        self._connecting = threading.Thread(target=self._connect, name=name, daemon=True)
        self._connecting.start()

    def _connect(self) -> None:
        """In a thread of its own."""
        host, port = split_host_port(self._greeting.receiver)
        try:
            channel = socket.create_connection((host, port), _CONNECT_S)
            try:
                if self._tls is not None:
                    channel = self._tls.get().wrap_socket(channel, server_hostname=host)
                disable_delay(channel)
                channel.sendall(frame(msgspec.msgpack.encode(self._greeting)))
                channel.setblocking(False)
                self._made = channel
            except BaseException:
                channel.close()
                raise
        except (OSError, ValueError) as error:
            _log.debug("cannot reach a raft member", peer=self._greeting.receiver, error=str(error))
        self._loop.call(self._take_over)

    def _take_over(self) -> None:
        assert self._connecting is not None
        self._connecting.join()
        self._connecting = None
        self._channel, self._made = self._made, None
        if self._channel is None:
            self._retry_at_s = time.monotonic() + backoff_s(self._failures, *_RETRY_S)
            self._failures += 1
            return
        self._failures = 0
        self._moved_s = time.monotonic()
        self._is_full = False
        self._loop.watch(self._channel.fileno(), self._ready)

    def _watch(self, is_full: bool) -> None:
        if self._channel is not None and is_full != self._is_full:
            self._is_full = is_full
            self._loop.watch(self._channel.fileno(), self._ready, write=is_full)

    def _ready(self) -> None:
        """There is room again, or the other side, which sends nothing here, has ended."""
        if self._channel is None:
            return
        try:
            said = self._channel.recv(1)
        except WOULD_BLOCK:
            self.flush()
        except OSError as error:
            self._lost(error)
        else:
            self._lost(ConnectionError("it spoke out of turn" if said else "it was closed"))

    def _lost(self, error: OSError) -> None:
        _log.debug("raft connection ended", peer=self._greeting.receiver, error=str(error))
        self._disconnect()
        self._retry_at_s = time.monotonic() + _RETRY_S[0]

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._loop.forget(self._channel.fileno())
            self._channel.close()
            self._channel = None
        self._quick.clear()
        self._slow.clear()
        self._slow_bytes = 0
        self._large = self._rest = memoryview(b"")


def disable_delay(channel: socket.socket) -> None:
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def shut_down(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
