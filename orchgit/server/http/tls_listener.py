"""The TLS listener of HTTPS; answers plain HTTP with what this port is.

A TLS handshake with a plain request can only fail, with nothing that a person could read. So the
listener looks at the first byte before the handshake takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from orchgit.server.http.clients import HttpClients

_log = structlog.get_logger(component="server")
_HANDSHAKE_RECORD = b"\x16"
_WITHOUT_LIMIT_S = 86400.0
_READ_OUT_S = 1.0
_OUT_OF_FILES_S = 0.5


def _answer(status: bytes, text: bytes) -> bytes:
    return (
        b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text)
    )


_SPEAKS_TLS = _answer(
    b"400 Bad Request", b"cannot answer: this port speaks HTTPS; write https:// in the address\n"
)
_WANTS_CERTIFICATE = _answer(
    b"403 Forbidden",
    b"cannot answer: only those who show a certificate of the cluster's authority are answered; "
    b"give -client-cert and -client-key, or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY (curl: --cert "
    b"and --key, git: GIT_SSL_CERT and GIT_SSL_KEY)\n",
)


class TlsListener:
    """Accepts connections and gives them to a protocol after the handshake.

    `make_protocol` gets the client's address, which is counted, and has to end the count when the
    connection closes. `context` is asked for at each handshake. Where the context takes
    certificates, a client without one reaches a fixed answer and no protocol: had TLS itself
    refused it, uvloop would drop the alert that says why.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: Callable[[], ssl.SSLContext],
        make_protocol: Callable[[str], asyncio.Protocol],
        clients: HttpClients,
        handshake_s: float,
    ) -> None:
        """`clients` also counts connections in their handshake, which have `handshake_s` (0: no
        limit).
        """
        self._listening = listening
        self._context = context
        self._clients = clients
        self._handshake_s = handshake_s or _WITHOUT_LIMIT_S
        asks = context().verify_mode != ssl.CERT_NONE
        self._make_protocol: Callable[[str], asyncio.Protocol] = make_protocol
        if asks:
            self._make_protocol = partial(
                _CertificateGate, make_protocol, clients, self._handshake_s
            )
        self._accepting: asyncio.Task[None] | None = None
        self._entering: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        self._accepting = asyncio.create_task(self._accept(), name="https")

    async def close(self) -> None:
        """Accepts no more; connections that are established stay."""
        tasks = [*self._entering, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, client = await loop.sock_accept(self._listening)
            except OSError as error:
                _log.warning("cannot take a connection", error=str(error))
                await asyncio.sleep(_OUT_OF_FILES_S)
                continue
            if not self._clients.enter(client[0]):
                connection.close()
                continue
            task = asyncio.create_task(self._let_in(connection, client[0]), name="https connection")
            self._entering.add(task)
            task.add_done_callback(self._entering.discard)

    async def _let_in(self, connection: socket.socket, address: str) -> None:
        """Does the handshake of one connection; TLS itself tells the client of a failure."""
        entered = False
        try:
            async with asyncio.timeout(self._handshake_s):
                first = await _first_byte(connection)
            if first == _HANDSHAKE_RECORD:
                await self._shake_hands(connection, address)
                entered = True
            elif first:
                await _explain(connection)
        except (OSError, TimeoutError) as error:
            _log.debug("no TLS connection", error=str(error) or "no hello came")
        finally:
            if not entered:
                self._clients.leave(address)
                connection.close()

    async def _shake_hands(self, connection: socket.socket, address: str) -> None:
        # asyncio sends small answers at once by itself only on connections that it accepted.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._make_protocol(address),
            connection,
            ssl=self._context(),
            ssl_handshake_timeout=self._handshake_s,
        )


class _CertificateGate(asyncio.Protocol):
    """Passes the connection of a client with a certificate on; answers others with the refusal."""

    def __init__(
        self,
        make_protocol: Callable[[str], asyncio.Protocol],
        clients: HttpClients,
        patience_s: float,
        address: str,
    ) -> None:
        self._make_protocol = make_protocol
        self._clients = clients
        self._patience_s = patience_s
        self._address = address
        self._transport: Any
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # uvloop's is of no class of asyncio
        if transport.get_extra_info("ssl_object").getpeercert(binary_form=True):
            protocol = self._make_protocol(self._address)
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            return
        self._transport = transport
        self._patience = asyncio.get_running_loop().call_later(self._patience_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(_WANTS_CERTIFICATE)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.leave(self._address)
        if self._patience is not None:
            self._patience.cancel()


async def _first_byte(connection: socket.socket) -> bytes:
    """Returns the first byte without consuming it; b"" if the client has gone."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(connection, wake)
    try:
        await came
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK)


async def _explain(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, _SPEAKS_TLS)
    connection.shutdown(socket.SHUT_WR)
    # A connection that is closed with a request unread is reset, and the answer may be lost.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READ_OUT_S):
            while await loop.sock_recv(connection, 1 << 16):
                continue
