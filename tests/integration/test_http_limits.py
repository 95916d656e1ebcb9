"""What a client may send to a listener of HTTP, and how long it may be about it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from orchgit.server.http.access import HttpAccess
from orchgit.server.http.protocol import BODY_TIMEOUT_S, HEAD_TIMEOUT_S
from orchgit.server.http.server import HttpServer
from orchgit.wire.https import HttpTls, asking_context
from orchgit.wire.limits import Limits
from tests.support.certificates import make_tls_files
from tests.support.crowding import crowding
from tests.support.hostile.requests_http import RAW_REQUESTS, RawRequest
from tests.support.http_listener import Streams, connect, listening, on_uvloop

SHORT = b"GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def length(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the whole body and answers with its length; waits at /wait until it may answer."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    if scope["path"] == "/wait":
        await receive()
        return
    body = b"%d" % size
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def served(access: HttpAccess | None = None) -> AbstractAsyncContextManager[HttpServer]:
    return listening(length, access)


async def sent(streams: Streams, data: bytes) -> None:
    """As much of it as is taken."""
    _, writer = streams
    try:
        writer.write(data)
        await writer.drain()
    except ConnectionError:
        return


async def status(reader: asyncio.StreamReader) -> int:
    """Of the next answer; 0 if the connection ends without one."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


@pytest.mark.parametrize("request_", RAW_REQUESTS, ids=lambda each: each.name)
def test_hostile_request_is_refused_without_delaying_others(request_: RawRequest) -> None:
    async def scenario() -> None:
        async with served() as server:
            streams = await connect(server)
            other = await connect(server)
            sending = asyncio.create_task(sent(streams, request_.data))
            if not request_.ends:
                await sending
                # Another's answer says that the server has read it.
                await sent(other, SHORT)
                assert await status(other[0]) == 200
                now_s = asyncio.get_running_loop().time()
                server.end_overdue(now_s)
                server.end_overdue(now_s + max(HEAD_TIMEOUT_S, BODY_TIMEOUT_S) + 1)
            assert await status(streams[0]) == request_.status
            took_s: list[float] = []
            while len(took_s) < 5 and min(took_s, default=1.0) >= 0.1:  # a busy machine is slower
                other = await connect(server)
                began_s = time.monotonic()
                await sent(other, SHORT)
                assert await status(other[0]) == 200
                took_s.append(time.monotonic() - began_s)
            assert min(took_s) < 0.1 * crowding()
            await sending

    on_uvloop(scenario)


def test_request_head_of_the_largest_size_is_accepted() -> None:
    async def scenario() -> None:
        async with served() as server:
            for size in (100, 20_000, 65_000):
                streams = await connect(server)
                url = b"/?" + b"x" * (size // 2)
                head = b"GET %s HTTP/1.1\r\nHost: localhost\r\nA: %s\r\n\r\n"
                await sent(streams, head % (url, b"y" * (size // 2)))
                assert await status(streams[0]) == 200

    on_uvloop(scenario)


def test_large_and_chunked_and_pipelined_bodies_arrive() -> None:
    async def scenario() -> None:
        async with served() as server:
            reader, writer = await connect(server)
            body = b"x" * 5_000_000
            writer.write(b"PUT / HTTP/1.1\r\nHost: a.localhost\r\nContent-Length: 5000000\r\n\r\n")
            writer.write(body)
            writer.write(b"PUT / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(100):
                writer.write(b"9c40\r\n" + body[:40_000] + b"\r\n")
            writer.write(b"0\r\nTrailer: x\r\n\r\n")
            writer.write(SHORT * 200)
            found = b""
            while found.count(b"HTTP/1.1 200") < 202 or not found.endswith(b"\r\n\r\n0"):
                found += await reader.read(1 << 16)
            assert b"\r\n\r\n5000000" in found
            assert b"\r\n\r\n4000000" in found

    on_uvloop(scenario)


def test_slow_body_and_blocking_answer_are_not_cut_off() -> None:
    async def scenario() -> None:
        async with served() as server:
            slow, waiting = await connect(server), await connect(server)
            await sent(waiting, b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await sent(slow, b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4096\r\n\r\n")
            now_s = asyncio.get_running_loop().time()
            for _ in range(4):
                other = await connect(server)
                await sent(other, SHORT)
                assert await status(other[0]) == 200
                server.end_overdue(now_s)
                await sent(slow, b"x" * 1024)
                now_s += BODY_TIMEOUT_S + 1
            assert await status(slow[0]) == 200
            assert not waiting[0].at_eof()

    on_uvloop(scenario)


def test_connections_of_one_address_beyond_the_limit_are_refused() -> None:
    async def scenario() -> None:
        async with served(HttpAccess(limits=Limits(http_max_conns_per_client=3))) as server:
            first = [await connect(server) for _ in range(3)]
            for streams in first:
                await sent(streams, SHORT)
                assert await status(streams[0]) == 200
            assert await status((await connect(server))[0]) == 429
            first[0][1].close()
            await first[0][1].wait_closed()
            while True:
                streams = await connect(server)
                await sent(streams, SHORT)
                if await status(streams[0]) == 200:
                    return

    on_uvloop(scenario)


def test_connection_limit_counts_handshakes_and_clients_with_certificates(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    limits = Limits(http_max_conns_per_client=2)

    async def scenario() -> None:
        async with served(HttpAccess(HttpTls(files, verify_client=True), limits=limits)) as server:
            silent = await connect(server)
            streams = await connect(server, asking_context(files))
            await sent(streams, SHORT)
            assert await status(streams[0]) == 200
            refused = await connect(server)
            assert await refused[0].read() == b""
            silent[1].close()
            streams[1].close()

    on_uvloop(scenario)


def test_handshake_past_its_timeout_is_closed(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    limits = Limits(https_handshake_timeout_s=0.2)

    async def scenario() -> None:
        async with served(HttpAccess(HttpTls(files), limits=limits)) as server:
            silent, half = await connect(server), await connect(server)
            await sent(half, b"\x16\x03\x01\x02\x00")
            assert await silent[0].read() == b""
            await half[0].read()
            streams = await connect(server, asking_context(files))
            await sent(streams, SHORT)
            assert await status(streams[0]) == 200

    on_uvloop(scenario)


def test_limit_of_zero_allows_any_number_of_connections() -> None:
    async def scenario() -> None:
        async with served(HttpAccess(limits=Limits(http_max_conns_per_client=0))) as server:
            open_ones = [await connect(server) for _ in range(150)]
            await sent(open_ones[-1], SHORT)
            assert await status(open_ones[-1][0]) == 200
            for _, writer in open_ones:
                writer.close()

    on_uvloop(scenario)
