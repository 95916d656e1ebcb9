"""What identity providers may cost: time, size, requests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from orchgit.clock import FakeClock
from orchgit.services.acl.providers import (
    CACHED_S,
    MAX_AT_ONCE,
    IdentityProviders,
    ProviderError,
)
from orchgit.wire.https import HttpTls, serving_context
from orchgit.wire.machine_authorities import MachineAuthorities
from tests.support.certificates import LOOPBACK, make_tls_files

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


_ENOUGH_S = 60.0
"""For answers that come: a machine under load must not decide the result."""


async def with_server(
    answer: Answer,
    work: Callable[[str, IdentityProviders, FakeClock], Awaitable[None]],
    timeout_s: float = _ENOUGH_S,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)

    clock = FakeClock()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        providers = IdentityProviders(clock, timeout_s)
        await work(f"http://127.0.0.1:{port}", providers, clock)


def keys_answer(writer: asyncio.StreamWriter) -> None:
    body = b'{"keys": []}'
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSJ9.e30.AAAA"


def test_answer_that_drips_is_given_up() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        event = asyncio.Event()
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            try:
                async with asyncio.timeout(0.02):
                    await event.wait()
            except TimeoutError:
                continue

    async def work(url: str, providers: IdentityProviders, clock: FakeClock) -> None:
        with pytest.raises(ProviderError, match="no whole answer"):
            await providers.keys(url, (), TOKEN)

    asyncio.run(with_server(drip, work, timeout_s=0.3))


def test_redirect_is_not_followed() -> None:
    async def redirect(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")

    async def work(url: str, providers: IdentityProviders, clock: FakeClock) -> None:
        with pytest.raises(ProviderError, match="302"):
            await providers.keys(url, (), TOKEN)

    asyncio.run(with_server(redirect, work))


def test_keys_are_read_again_after_a_while_and_for_an_unknown_key_id() -> None:
    asked = 0

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        keys_answer(writer)

    async def work(url: str, providers: IdentityProviders, clock: FakeClock) -> None:
        for _ in range(5):
            await providers.keys(url, (), TOKEN)
        assert asked == 1
        await clock.advance(6)
        for _ in range(5):
            await providers.keys(url, (), TOKEN)
        assert asked == 2
        await clock.advance(CACHED_S)
        await providers.keys(url, (), TOKEN)
        assert asked == 3

    asyncio.run(with_server(answer, work))


def test_only_so_many_requests_are_under_way_at_once() -> None:
    under_way = most = 0
    full = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == MAX_AT_ONCE:
            full.set()
        await full.wait()
        under_way -= 1
        keys_answer(writer)

    async def work(url: str, providers: IdentityProviders, clock: FakeClock) -> None:
        asks = (providers.keys(f"{url}/{at}", (), TOKEN) for at in range(2 * MAX_AT_ONCE))
        await asyncio.gather(*asks)
        assert most == MAX_AT_ONCE

    asyncio.run(with_server(answer, work))


def test_requests_share_the_authorities_of_the_machine(tmp_path: Path) -> None:
    files, reads = make_tls_files(tmp_path), itertools.count()

    def read() -> ssl.SSLContext:
        next(reads)
        return ssl.create_default_context(cafile=files.ca)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            keys_answer(writer)

    async def work() -> None:
        providers = IdentityProviders(FakeClock(), _ENOUGH_S, MachineAuthorities(read))
        tls = serving_context(HttpTls(files))
        async with (
            await asyncio.start_server(serve, LOOPBACK, 0) as plain,
            await asyncio.start_server(serve, LOOPBACK, 0, ssl=tls) as secure,
        ):
            await providers.keys(f"http://{_address(plain)}", (), TOKEN)
            assert next(reads) == 0, "HTTP needs no authorities"
            for at in range(3):
                await providers.keys(f"https://{_address(secure)}/{at}", (), TOKEN)
            assert next(reads) == 2, "one read for three requests"
            await providers.keys(f"https://{_address(secure)}/own", (files.ca.read_text(),), TOKEN)
            assert next(reads) == 3, "a method with authorities of its own needs none of these"

    asyncio.run(work())


def _address(server: asyncio.Server) -> str:
    return f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "nonsense", "http://[", "gopher://x"])
def test_only_http_is_spoken(url: str) -> None:
    async def work() -> None:
        with pytest.raises(ProviderError):
            await IdentityProviders(FakeClock()).keys(url, (), TOKEN)

    asyncio.run(work())


def test_authority_that_is_no_certificate_is_refused() -> None:
    async def work() -> None:
        providers = IdentityProviders(FakeClock())
        with pytest.raises(ProviderError, match="CA PEM"):
            await providers.keys("https://127.0.0.1:1", ("nonsense",), TOKEN)

    asyncio.run(work())
