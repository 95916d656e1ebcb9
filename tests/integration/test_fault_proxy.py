"""The links of the cluster tests: what they do to a connection, and that nothing gets lost."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.fault_proxy import CLEAN, Faults, Link
from tests.support.polling import until

BLOCKED = Faults(blocked=True)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def linked(serve: Serve = echo) -> AsyncIterator[tuple[Link, tuple[str, int]]]:
    """A link to a server that sends back what it gets; and where the link listens."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    link = Link(random.Random(1))
    link.listen(listener, server.sockets[0].getsockname(), _socket)
    try:
        yield link, listener.getsockname()
    finally:
        await link.close()
        server.close()


def _socket() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


async def said_back(streams: Streams, data: bytes) -> bytes:
    reader, writer = streams
    writer.write(data)
    return await reader.readexactly(len(data))


def test_lossy_link_delivers_all_bytes_in_order() -> None:
    async def scenario() -> None:
        async with linked() as (link, address):
            link.there.set(Faults(jitter_s=0.002, loss=0.2, resend_s=0.01))
            streams = await asyncio.open_connection(*address)
            sent = random.Random(2).randbytes(3 << 20)
            assert await said_back(streams, sent) == sent
            streams[1].close()

    asyncio.run(scenario())


def test_delay_applies_in_both_directions() -> None:
    async def scenario() -> None:
        async with linked() as (link, address):
            streams = await asyncio.open_connection(*address)
            await said_back(streams, b"warm")
            link.there.set(Faults(delay_s=0.05))
            link.back.set(Faults(delay_s=0.05))
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            await said_back(streams, b"hello")
            assert loop.time() - began_s >= 0.1
            streams[1].close()

    asyncio.run(scenario())


@pytest.mark.parametrize("way", ["there", "back"])
def test_blocked_direction_holds_bytes_until_it_is_unblocked(way: str) -> None:
    async def scenario() -> None:
        async with linked() as (link, address):
            streams = await asyncio.open_connection(*address)
            await said_back(streams, b"before")
            getattr(link, way).set(BLOCKED)
            asked = asyncio.create_task(said_back(streams, b"while"))
            done, _ = await asyncio.wait((asked,), timeout=0.1)
            assert not done
            getattr(link, way).set(CLEAN)
            assert await asked == b"while"
            streams[1].close()

    asyncio.run(scenario())


def test_cut_link_resets_open_and_new_connections() -> None:
    async def scenario() -> None:
        async with linked() as (link, address):
            streams = await asyncio.open_connection(*address)
            await said_back(streams, b"before")
            link.cut()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await said_back(streams, b"after")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await said_back(await asyncio.open_connection(*address), b"new")
            link.mend()
            streams = await asyncio.open_connection(*address)
            assert await said_back(streams, b"mended") == b"mended"
            streams[1].close()

    asyncio.run(scenario())


def test_end_of_one_side_ends_the_other() -> None:
    """A sender that never reads must find out by sending."""

    async def scenario() -> None:
        async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with linked(leave) as (_, address):
            _, writer = await asyncio.open_connection(*address)
            with pytest.raises(ConnectionError):
                await until(lambda: say_more(writer), 120)
            writer.close()

    asyncio.run(scenario())


async def say_more(writer: asyncio.StreamWriter) -> None:
    writer.write(b"more")
    await writer.drain()
