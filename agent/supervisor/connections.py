"""The supervisor's socket: which peers may connect, and whole messages in and out."""

from __future__ import annotations

import _socket
import os
import select

from agent.supervisor.codec import CodecError, frame, take_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.supervisor.loop import Loop

_READ_BYTES = 65536
_MAX_UNSENT_BYTES = 16 << 20


class Connection:
    """One agent (or a test) at the other end."""

    def __init__(self, loop: Loop, sock: _socket.socket, listener: Listener) -> None:
        self._loop = loop
        self._sock = sock
        self._listener = listener
        self._incoming = bytearray()
        self._unsent = bytearray()
        self.closed = False
        self.watching = False
        loop.add(sock.fileno(), self._ready)

    def send(self, message: dict[str, object]) -> None:
        """Send without waiting; a peer that does not read is cut off."""
        if self.closed:
            return
        self._unsent += frame(message)
        self._flush()
        if len(self._unsent) > _MAX_UNSENT_BYTES:
            self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove(self._sock.fileno())
            self._sock.close()
            self._listener.closed(self)

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._flush()
        if not self.closed and events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._incoming += data
        try:
            while not self.closed and (message := take_frame(self._incoming)) is not None:
                self._listener.handle(self, message)
        except CodecError:
            self.close()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._unsent) if self._unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._unsent[:sent]
        more = select.EPOLLOUT if self._unsent else 0
        self._loop.want(self._sock.fileno(), select.EPOLLIN | more)


class _ListeningSocket(_socket.socket):
    """The interpreter's own socket leaves `accept` to the module `socket`, which takes memory."""

    def __init__(self) -> None:
        super().__init__(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)

    def accept(self) -> _socket.socket:
        fd, _address = self._accept()  # type: ignore[attr-defined] # typeshed lacks it
        return _socket.socket(fileno=fd)


class Listener:
    """Accepts peers of our own user (or root) and hands their messages to `on_message`."""

    def __init__(self, loop: Loop, on_message: Callable[[Connection, object], None]) -> None:
        self._loop = loop
        self._on_message = on_message
        self.connections: list[Connection] = []
        self._sock = _ListeningSocket()

    def listen(self, name: str) -> None:
        """Bind `name` in the current directory (a long path would not fit into an address)."""
        if os.path.exists(name):
            os.unlink(name)
        self._sock.bind(name)
        self._sock.listen(16)
        self._loop.add(self._sock.fileno(), lambda _events: self._accept())

    def handle(self, connection: Connection, message: object) -> None:
        self._on_message(connection, message)

    def closed(self, connection: Connection) -> None:
        self.connections.remove(connection)

    def _accept(self) -> None:
        try:
            sock = self._sock.accept()
        except OSError:
            return  # the peer left already
        sock.setblocking(False)
        if peer_uid(sock) in (0, os.geteuid()):
            self.connections.append(Connection(self._loop, sock, self))
        else:
            sock.close()


def peer_uid(sock: _socket.socket) -> int:
    """The user at the other end, as the kernel knows it."""
    credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little")
