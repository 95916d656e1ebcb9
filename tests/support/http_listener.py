"""A listener of HTTP on loopback, with an application of the test's own, on uvloop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvloop
from starlette.types import ASGIApp

from orchgit.server.http.access import HttpAccess
from orchgit.server.http.server import HttpServer
from tests.support.certificates import LOOPBACK

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_ENOUGH_S = 120.0


@asynccontextmanager
async def listening(app: ASGIApp, access: HttpAccess | None = None) -> AsyncIterator[HttpServer]:
    server = HttpServer(app, f"{LOOPBACK}:0", access)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(1.0)


def on_uvloop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(_ENOUGH_S):
            await scenario()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def connect(server: HttpServer, tls: ssl.SSLContext | None = None) -> Streams:
    port = int(server.address.rpartition(":")[2])
    return await asyncio.open_connection(LOOPBACK, port, ssl=tls)
