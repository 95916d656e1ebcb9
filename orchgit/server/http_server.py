"""uvicorn, started and stopped by us: bound before it serves, stopped with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from dataclasses import replace

import structlog
import uvicorn
from starlette.types import ASGIApp

from orchgit.errors import InvalidInputError
from orchgit.server.addresses import split_host_port
from orchgit.server.https_door import HttpsDoor
from orchgit.server.joined_writes import HttpProtocol
from orchgit.wire.https import HttpTls, option_for, serving_context, why_not_for
from orchgit.wire.tls import PerVersion

_log = structlog.get_logger("orchgit.server")

_BACKLOG = 1024


class _NoBrokenAnswers(logging.Filter):
    """An answer whose other side is gone before its end is nobody's fault here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, ConnectionError)


_NO_BROKEN_ANSWERS = _NoBrokenAnswers()


class HttpServer:
    """`address` is known after `start`. With `tls` it is HTTPS that is served, and only that."""

    def __init__(self, app: ASGIApp, bind: str, tls: HttpTls | None = None) -> None:
        self._app = app
        self._bind = bind
        self._tls = tls
        self._door: HttpsDoor | None = None
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None
        self._loop: asyncio.Task[None] | None = None
        self.address = bind

    def bind(self) -> None:
        """Take the port; raises InvalidInputError if another program has it."""
        host, _, port = self._bind.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named, as asyncio sends small answers at once (TCP_NODELAY) only where it knows it is TCP.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host.strip("[]"), int(port)))
        except OSError as error:
            sock.close()
            raise InvalidInputError(
                f"cannot serve HTTP on {self._bind}: {error.strerror}; "
                "stop the other program or choose another port"
            ) from error
        sock.listen(_BACKLOG)
        sock.setblocking(False)
        self._socket = sock
        self.address = f"{host}:{sock.getsockname()[1]}"

    async def start(self) -> None:
        if self._socket is None:
            self.bind()
        config = uvicorn.Config(
            self._app,
            http=HttpProtocol,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=75,
        )
        config.load()
        logging.getLogger("uvicorn.error").addFilter(_NO_BROKEN_ANSWERS)
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await self._let_in(server)
        self._server = server
        self._loop = asyncio.create_task(server.main_loop(), name="http")

    async def _let_in(self, server: uvicorn.Server) -> None:
        """uvicorn accepts plain connections itself; to those of TLS it is introduced."""
        assert self._socket is not None
        if self._tls is None:
            await server.startup(sockets=[self._socket])
            return
        tls = self._tls
        context = PerVersion(tls.files, lambda files: serving_context(replace(tls, files=files)))
        await server.startup(sockets=[])
        make_protocol = functools.partial(
            HttpProtocol,
            config=server.config,
            server_state=server.server_state,
            app_state=server.lifespan.state,
        )
        self._door = HttpsDoor(self._socket, context.get, make_protocol)
        self._door.open()

    async def stop(self, deadline_s: float) -> None:
        """Finish what is being answered within the deadline, then cut the rest."""
        if self._server is None or self._loop is None:
            return
        self._server.should_exit = True
        await self._loop
        if self._door is not None:
            await self._door.close()
        sockets = [self._socket] if self._socket else []
        self._server.config.timeout_graceful_shutdown = None
        try:
            async with asyncio.timeout(deadline_s):
                await self._server.shutdown(sockets=sockets)
        except TimeoutError:
            await self._cut()
        self._server = None

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
    """Say so if the certificate is not for the address that others are told (host:port).

    Raises InvalidInputError if it is of another authority, or over.
    """
    host, _ = split_host_port(address)
    if why := why_not_for(tls.files, host):
        _log.warning(
            "the certificate is not for the address that others are told of",
            address=address,
            certificate=str(tls.files.cert),
            why=why,
            remedy=f"orchgit tls cert create ... {option_for(host)}, or advertise.http",
        )
