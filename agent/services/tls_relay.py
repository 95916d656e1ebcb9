"""Carries bytes between a socket of the node and a TLS connection.

The gRPC library checks every certificate, by authorities of its own. Behind this relay it speaks
without TLS, and a gRPC check has the same say about certificates as one over HTTPS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

_READ_BYTES = 65536


@contextlib.asynccontextmanager
async def relay_to(
    host: str, port: int, context: ssl.SSLContext, server_name: str
) -> AsyncIterator[Path]:
    """Yields a socket, closed to other users, that continues at host:port over TLS.

    The TLS connection is there already: its first user has it, all others are turned away. Raises
    OSError where there is none, and where the certificate is not trusted.
    """
    remote, to_remote = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=server_name
    )
    copies: list[asyncio.Task[None]] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if copies:
            writer.close()
            return
        copies.append(asyncio.create_task(_copy(reader, to_remote)))
        copies.append(asyncio.create_task(_copy(remote, writer)))

    try:
        with tempfile.TemporaryDirectory(prefix="orchgit-check-") as directory:
            socket = Path(directory) / "s"
            async with await asyncio.start_unix_server(begin, socket):
                yield socket
    finally:
        to_remote.close()
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies until the end of either side, and closes the one that is written to."""
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()
