"""HTTPS at one server's door: who gets in, and what everybody else is told."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from orchgit.cli.main import cli
from orchgit.errors import InvalidInputError
from orchgit.server.http.access import HttpAccess
from orchgit.server.http.server import HttpServer, check_certificate
from orchgit.wire.https import HttpTls, asking_context
from tests.support.certificates import LOOPBACK, Authority, make_tls_files
from tests.support.http_listener import connect, listening, on_uvloop

REQUEST = (
    b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """The scheme and the body."""
    body = scope["scheme"].encode() + b" "
    while (message := await receive()).get("more_body"):
        body += message["body"]
    body += message.get("body", b"")
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def served(tls: HttpTls | None) -> AbstractAsyncContextManager[HttpServer]:
    return listening(echo, HttpAccess(tls))


async def answered(server: HttpServer, tls: ssl.SSLContext | None, said: bytes) -> bytes:
    """All that comes back, until the server closes."""
    reader, writer = await connect(server, tls)
    writer.write(said)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_body_sent_over_https_arrives(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)

    async def scenario() -> None:
        large = b"x" * 3_000_000
        for verify in (False, True):
            async with served(HttpTls(files, verify)) as server:
                said = REQUEST % (len(large), large)
                answer = await answered(server, asking_context(files), said)
                assert answer.startswith(b"HTTP/1.1 200 OK")
                assert answer.endswith(b"\r\n\r\nhttps " + large)

    on_uvloop(scenario)


def test_client_certificate_is_required_only_when_configured(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    nobody = ssl.create_default_context(cafile=files.ca)

    async def scenario() -> None:
        async with served(HttpTls(files)) as server:
            assert b" 200 OK" in await answered(server, nobody, REQUEST % (0, b""))
        async with served(HttpTls(files, verify_client=True)) as server:
            assert b" 403 Forbidden" in await answered(server, nobody, REQUEST % (0, b""))

    on_uvloop(scenario)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_of_another_authority_is_refused_in_every_tls_version(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    files = make_tls_files(tmp_path / "ours")
    stranger = asking_context(make_tls_files(tmp_path / "theirs"))
    stranger.load_verify_locations(files.ca)
    stranger.minimum_version = stranger.maximum_version = version

    async def scenario() -> None:
        async with served(HttpTls(files, verify_client=True)) as server:
            got = b""
            with contextlib.suppress(OSError):
                got = await answered(server, stranger, REQUEST % (0, b""))
            assert got == b""

    on_uvloop(scenario)


def test_plain_http_at_the_https_port_is_answered_with_the_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(HttpTls(make_tls_files(tmp_path))) as server:
            answer = await answered(server, None, REQUEST % (3, b"abc"))
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"this port speaks HTTPS; write https://" in answer

    on_uvloop(scenario)


def test_silent_or_malformed_connections_do_not_block_others(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)

    async def scenario() -> None:
        async with served(HttpTls(files)) as server:
            silent = [await connect(server, None) for _ in range(20)]
            _, gone = await connect(server, None)
            gone.close()
            assert b"200 OK" not in await answered(server, None, b"\x16" + b"?" * 300)
            answer = await answered(server, asking_context(files), REQUEST % (0, b""))
            assert b" 200 OK" in answer
        for reader, writer in silent:
            assert await reader.read() == b"", "stopping closes the door"
            writer.close()

    on_uvloop(scenario)


def test_https_at_the_plain_port_fails_with_the_reason() -> None:
    async def scenario() -> None:
        async with served(None) as server:
            words = ["job", "status", "-address", f"https://{server.address}"]
            done = await asyncio.to_thread(CliRunner().invoke, cli, words)
            assert "it speaks plain HTTP there; write http://" in str(done.exception)

    on_uvloop(scenario)


def test_certificate_for_another_address_is_logged(tmp_path: Path) -> None:
    tls = HttpTls(make_tls_files(tmp_path))
    with capture_logs() as logged:
        check_certificate(tls, f"{LOOPBACK}:4646")
        assert not logged
        check_certificate(tls, "10.0.0.7:4646")
    said = str(logged)
    assert "IP address mismatch" in said
    assert "-additional-ipaddress 10.0.0.7" in said


def test_server_with_a_certificate_of_another_authority_does_not_start(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path / "ours")
    other = Authority(tmp_path / "theirs")
    mixed = type(files)(other.file, files.cert, files.key)
    with pytest.raises(InvalidInputError, match=r"cannot use the certificate .* checked with"):
        check_certificate(HttpTls(mixed), f"{LOOPBACK}:4646")
