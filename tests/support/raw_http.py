"""HTTP over one kept connection, with little work: for loads that must not cost what they measure.

Answers with a Content-Length are read, and chunked ones; nothing else is sent by our servers.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

Dial = Callable[[], socket.socket]
"""Makes a socket that does not block, not connected yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    head: bytes
    """As it came, in lower case."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def header(self, name: str) -> str:
        """Empty if it was not sent."""
        _, found, rest = self.head.partition(b"\r\n" + name.lower().encode() + b": ")
        return rest.partition(b"\r\n")[0].decode() if found else ""


class RawConnection(asyncio.Protocol):
    """One request at a time. OSError: the connection is of no more use, the outcome unknown."""

    def __init__(self, host: str) -> None:
        self.host = host.encode()
        self._got = b""
        self._waiter: asyncio.Future[Answer] | None = None
        self._error: OSError | None = None

    @classmethod
    async def open(
        cls,
        address: tuple[str, int],
        dial: Dial | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        loop = asyncio.get_running_loop()
        sock = dial() if dial else _socket()
        try:
            await loop.sock_connect(sock, address)
            name = address[0] if tls else None
            _, made = await loop.create_connection(
                lambda: cls(address[0]), sock=sock, ssl=tls, server_hostname=name
            )
        except BaseException:
            sock.close()
            raise
        return made

    async def request(self, method: str, path: str, body: bytes = b"", token: str = "") -> Answer:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s"
            % (method.encode(), path.encode(), self.host, _header(token), len(body), body)
        )
        try:
            return await self._waiter
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        self._transport.abort()

    @property
    def is_open(self) -> bool:
        return self._error is None and not self._transport.is_closing()

    # -- called by the loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._error = ConnectionResetError(f"the connection ended: {error}")
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._error)

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0 or self._waiter is None:
            return
        head = self._got[:end].lower() + b"\r\n"
        body = _body(head, self._got[end + 4 :])
        if body is None:
            return
        self._got = b""
        if not self._waiter.done():
            self._waiter.set_result(Answer(int(head[9:12]), head, body))


def _header(token: str) -> bytes:
    return b"X-Nomad-Token: %s\r\n" % token.encode() if token else b""


def _body(head: bytes, rest: bytes) -> bytes | None:
    """None while it is not whole."""
    _, found, length = head.partition(b"\r\ncontent-length: ")
    if found:
        size = int(length.partition(b"\r\n")[0])
        return rest if len(rest) >= size else None
    if b"\r\ntransfer-encoding: chunked" in head:
        return _joined(rest)
    return b""


def _joined(rest: bytes) -> bytes | None:
    parts = []
    while True:
        size_text, found, rest = rest.partition(b"\r\n")
        if not found or len(rest) < (size := int(size_text, 16)) + 2:
            return None
        if size == 0:
            return b"".join(parts)
        parts.append(rest[:size])
        rest = rest[size + 2 :]


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setblocking(False)
    return made
