"""The way to one other server: two queues, a thread, a connection made again when it is lost."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections import deque

import msgspec

from orchgit.replication import raft_messages
from orchgit.replication.raft_messages import Message
from orchgit.replication.raft_tls import split_address
from orchgit.replication.tcp_frames import (
    LAST_PART,
    PART,
    PART_BYTES,
    STILL_HERE,
    write_frame,
)

_LOG = logging.getLogger(__name__)
_MAX_QUEUED = 4096
_MAX_QUEUED_BYTES = 64 << 20
_CONNECT_S = 1.0
_RETRY_S = (0.02, 0.5)
_STILL_HERE_S = 3.0
SILENCE_S = 10.0
LINGER_S = 15.0
"""To who is no member (any more) a connection is kept for so long after the last message."""


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    protocol: int
    cluster: str
    sender: str
    receiver: str


class TcpLink:
    """`put` is for the raft thread and never waits. `is_member`: kept open until `close`."""

    def __init__(self, greeting: Greeting, tls: ssl.SSLContext | None, is_member: bool) -> None:
        self._greeting = greeting
        self._tls = tls
        self.is_member = is_member
        self._quick: deque[Message] = deque()
        self._slow: deque[Message] = deque()
        self._slow_bytes = 0
        self._changed = threading.Condition()
        self._channel: socket.socket | None = None
        self._closing = threading.Event()
        self._used_s = time.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"raft-to-{greeting.receiver}", daemon=True
        )
        self._thread.start()

    def put(self, message: Message) -> bool:
        """Dropped (False) while there is no connection, an old message helps nobody; and when too
        much waits."""
        size = raft_messages.size_of(message)
        with self._changed:
            self._used_s = time.monotonic()
            full = len(self._slow) >= _MAX_QUEUED or len(self._quick) >= _MAX_QUEUED
            if self._channel is None or full or (self._slow and self._is_too_much(size)):
                return False
            if raft_messages.may_overtake(message):
                self._quick.append(message)
            else:
                self._slow.append(message)
                self._slow_bytes += size
            self._changed.notify()
        return True

    def _is_too_much(self, size: int) -> bool:
        return self._slow_bytes + size > _MAX_QUEUED_BYTES

    @property
    def has_ended(self) -> bool:
        """It was not needed for long, or was closed."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Returns at once; see `join`."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
            if self._channel is not None:
                shut(self._channel)

    def join(self) -> None:
        self._thread.join()

    # -- the link's thread -----------------------------------------------------------------------

    @property
    def _is_wanted(self) -> bool:
        lingers = time.monotonic() - self._used_s < LINGER_S
        return not self._closing.is_set() and (self.is_member or lingers)

    def _run(self) -> None:
        wait_s = _RETRY_S[0]
        while self._is_wanted:
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
            self._disconnect()
            channel.close()
            self._closing.wait(_RETRY_S[0])

    def _connect(self) -> socket.socket:
        host, port = split_address(self._greeting.receiver)
        channel = socket.create_connection((host, port), _CONNECT_S)
        try:
            if self._tls is not None:
                channel = self._tls.wrap_socket(channel, server_hostname=host)
            without_delay(channel)
            channel.settimeout(SILENCE_S)
            write_frame(channel, msgspec.msgpack.encode(self._greeting))
        except BaseException:
            channel.close()
            raise
        with self._changed:
            self._channel = channel
        return channel

    def _disconnect(self) -> None:
        with self._changed:
            self._channel = None
            self._quick.clear()
            self._slow.clear()
            self._slow_bytes = 0

    def _pump(self, channel: socket.socket) -> None:
        """Quick messages pass between the parts of slow ones."""
        rest = memoryview(b"")
        while self._is_wanted:
            quick, slow = self._next(wait=not rest, take_slow=not rest)
            for message in quick:
                write_frame(channel, raft_messages.encode(message))
            if slow is not None:
                rest = memoryview(raft_messages.encode(slow))
                if len(rest) <= PART_BYTES:
                    write_frame(channel, rest)
                    rest = rest[len(rest) :]
            elif not quick and not rest:
                channel.sendall(STILL_HERE)
            if rest:
                part, rest = rest[:PART_BYTES], rest[PART_BYTES:]
                write_frame(channel, part, PART if rest else LAST_PART)

    def _next(self, wait: bool, take_slow: bool) -> tuple[list[Message], Message | None]:
        """Nothing, if nothing came for a while."""
        with self._changed:
            if wait and not self._quick and not self._slow:
                self._changed.wait(_STILL_HERE_S)
            quick = list(self._quick)
            self._quick.clear()
            if not take_slow or not self._slow:
                return quick, None
            slow = self._slow.popleft()
            self._slow_bytes -= raft_messages.size_of(slow)
            return quick, slow


def without_delay(channel: socket.socket) -> None:
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def shut(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
