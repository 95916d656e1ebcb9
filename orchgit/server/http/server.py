"""Runs uvicorn: bound before it serves, stopped with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from dataclasses import replace
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from orchgit.errors import InvalidInputError
from orchgit.host_port import join_host_port, split_host_port
from orchgit.server.audit.audit_log import AuditLog
from orchgit.server.http.access import HttpAccess, check_exposure
from orchgit.server.http.browser_guard import BrowserGuard
from orchgit.server.http.clients import HttpClients
from orchgit.server.http.cors import Cors, configured_origin
from orchgit.server.http.kept_requests import KeptRequests
from orchgit.server.http.protocol import HttpProtocol, SocketProtocol
from orchgit.server.http.tls_listener import TlsListener
from orchgit.wire.https import HttpTls, option_for, serving_context, why_not_for
from orchgit.wire.tls import PerVersion

_log = structlog.get_logger(component="server")

_BACKLOG = 1024
_SWEEP_S = 1.0


class _NoBrokenAnswers(logging.Filter):
    """Drops the log lines of answers whose client has gone, or which the listener's stop cuts."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, ConnectionError | asyncio.CancelledError)


_NO_BROKEN_ANSWERS = _NoBrokenAnswers()


class HttpServer:
    """Serves one app; `address`, the first of its addresses, is known after `bind`. `kept` answers
    what was asked before."""

    def __init__(
        self,
        app: ASGIApp,
        bind: str,
        access: HttpAccess | None = None,
        kept: KeptRequests | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._access = access or HttpAccess()
        origin = configured_origin(self._access.response_headers)
        self._app: ASGIApp = BrowserGuard(Cors(app, origin), self._access.names, origin)
        self._audit = audit
        self._kept = kept
        if audit is not None:
            self._app = audit.around(self._app, lambda: self.address)
            # What the listener answers by itself would be in no record.
            self._kept = None
        self._bind = bind
        self._clients = HttpClients(self._access.limits.http_max_conns_per_client)
        self._tls_listeners: list[TlsListener] = []
        self._server: uvicorn.Server | None = None
        self._sockets: list[socket.socket] = []
        self._loop: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.address = bind

    @property
    def refused_connections(self) -> int:
        """How many connections were refused as their addresses had too many."""
        return self._clients.refused

    def bind(self) -> None:
        """Takes the ports.

        Raises InvalidInputError if another program has it, where everyone who reaches it would be
        let in, or where the audit log cannot be written.
        """
        addresses = (self._bind, *self._access.also)
        for each in addresses:
            check_exposure(each, self._access)
        if self._audit is not None:
            self._audit.writer.open()
        for each in addresses:
            host, port = split_host_port(each)
            self._listen(each, host, port or self._port)
        self.address = join_host_port(split_host_port(self._bind)[0], self._port)

    @property
    def _port(self) -> int:
        """The port of the first address: where any port will do, the other addresses have it too;
        0 as long as there is none."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else 0

    def _listen(self, address: str, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named, as asyncio sends small answers at once (TCP_NODELAY) only where it knows it is TCP.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            for each in (sock, *self._sockets):
                each.close()
            self._sockets.clear()
            raise InvalidInputError(
                f"cannot serve HTTP on {address}: {error.strerror}; "
                "stop the other program or choose another port"
            ) from error
        sock.listen(_BACKLOG)
        sock.setblocking(False)
        self._sockets.append(sock)

    async def start(self) -> None:
        if not self._sockets:
            self.bind()
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            http=cast(Any, partial(HttpProtocol, clients=self._clients, kept=self._kept)),
            ws=cast(Any, partial(SocketProtocol, clients=self._clients)),
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            server_header=False,
            headers=list(self._access.response_headers.items()),
            timeout_keep_alive=75,
        )
        config.load()
        logging.getLogger("uvicorn.error").addFilter(_NO_BROKEN_ANSWERS)
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await self._let_in(server)
        self._server = server
        self._loop = asyncio.create_task(server.main_loop(), name="http")
        self._sweeping = asyncio.create_task(self._sweep(), name="http time-outs")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.end_overdue(asyncio.get_running_loop().time())

    def end_overdue(self, now_s: float) -> None:
        """Ends the connections whose clients have not sent in time what they began."""
        assert self._server is not None
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, HttpProtocol):
                connection.end_if_overdue(now_s)

    async def _let_in(self, server: uvicorn.Server) -> None:
        """Starts to accept. uvicorn accepts plain connections itself; the TLS listener accepts
        those of HTTPS."""
        if self._access.tls is None:
            await server.startup(sockets=self._sockets)
            return
        tls = self._access.tls
        context = PerVersion(tls.files, lambda files: serving_context(replace(tls, files=files)))
        await server.startup(sockets=[])
        make_protocol = partial(
            HttpProtocol,
            clients=self._clients,
            kept=self._kept,
            config=server.config,
            server_state=server.server_state,
            app_state=server.lifespan.state,
        )
        handshake_s = self._access.limits.https_handshake_timeout_s
        self._tls_listeners = [
            TlsListener(each, context.get, make_protocol, self._clients, handshake_s)
            for each in self._sockets
        ]
        for listener in self._tls_listeners:
            listener.open()

    async def stop(self, deadline_s: float) -> None:
        """Finishes the current answers within the deadline, then cuts the rest."""
        if self._server is None or self._loop is None:
            return
        self._server.should_exit = True
        await self._loop
        if self._sweeping is not None:
            self._sweeping.cancel()
        for listener in self._tls_listeners:
            await listener.close()
        self._server.config.timeout_graceful_shutdown = None
        try:
            async with asyncio.timeout(deadline_s):
                await self._server.shutdown(sockets=self._sockets)
        except TimeoutError:
            await self._cut()
        self._server = None
        if self._audit is not None:
            await self._audit.close()

    async def _cut(self) -> None:
        assert self._server is not None
        tasks = list(self._server.server_state.tasks)
        for task in tasks:
            task.cancel()
        for connection in list(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.gather(*tasks, return_exceptions=True)


def check_certificate(tls: HttpTls, address: str) -> None:
    """Warns if the certificate is not for the advertised address (host:port).

    Raises InvalidInputError if it is signed by another authority, or has expired.
    """
    host, _ = split_host_port(address)
    if why := why_not_for(tls.files, host):
        _log.warning(
            "the certificate does not name the advertised address",
            address=address,
            certificate=str(tls.files.cert),
            why=why,
            remedy=f"orchgit tls cert create ... {option_for(host)}, or advertise.http",
        )
