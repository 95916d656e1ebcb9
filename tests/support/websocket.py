"""A client of a websocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from typing import Any

import wsproto
from wsproto.events import AcceptConnection, CloseConnection, Ping, Request, TextMessage


async def websocket(
    port: int, path: str, say: list[dict[str, Any]], tls: ssl.SSLContext | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Every frame the server sends, and its close code."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    connection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
    writer.write(connection.send(Request(host="127.0.0.1", target=path)))
    frames: list[dict[str, Any]] = []
    try:
        while True:
            connection.receive_data(await reader.read(65536))
            for event in connection.events():
                match event:
                    case AcceptConnection():
                        for frame in say:
                            writer.write(connection.send(TextMessage(json.dumps(frame))))
                    case TextMessage():
                        frames.append(json.loads(event.data))
                    case Ping():
                        writer.write(connection.send(event.response()))
                    case CloseConnection():
                        return frames, event.code
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
