"""Relays a websocket of `/v1/client` to another machine's agent, both ways.

The server that a client spoke to connects to the agent itself, as it does for other requests of
`/v1/client`; so `alloc exec` works at every server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Self

from starlette.types import Receive, Scope, Send
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

from orchgit.errors import OrchgitError, RefusedError, UnavailableError
from orchgit.host_port import split_host_port
from orchgit.wait_first import wait_first

CONNECT_S = 5.0
FAILED = 1011
_MAX_REASON = 120
_READ_BYTES = 1 << 16
_RELAYED = b"x-orchgit-relayed"
_OWN = (b"host", b"connection", b"upgrade", _RELAYED)
"""Headers of one connection, besides those that begin with `sec-websocket-`."""
_OF_A_PAGE = (b"origin", b"referer", b"cookie", b"sec-fetch-site")
"""Headers of browsers, checked on the first server; the agent would take them for another
site's."""


async def refuse(receive: Receive, send: Send, error: OrchgitError) -> None:
    """Refuses a websocket with the reason, which clients see only of a websocket that was
    accepted."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": FAILED, "reason": str(error)[:_MAX_REASON]})


async def relay(
    scope: Scope, receive: Receive, send: Send, address: str, tls: ssl.SSLContext | None
) -> None:
    """Relays until one of the two sides ends it.

    Raises UnavailableError if the agent at `address` cannot be reached, before anything was
    received.
    """
    if any(name == _RELAYED for name, _ in scope["headers"]):
        raise RefusedError(f"cannot reach the agent at {address}: it answers that it is not there")
    agent = await _AgentSocket.open(scope, address, tls)
    try:
        await receive()
        await send({"type": "websocket.accept", "subprotocol": agent.subprotocol})
        async with wait_first(_to_client(agent, send), _to_agent(receive, agent)):
            pass
    finally:
        agent.close()


async def _to_client(agent: _AgentSocket, send: Send) -> None:
    code, reason = FAILED, "the agent is gone"
    with contextlib.suppress(OSError, ProtocolError):
        async for event in agent.events():
            if isinstance(event, TextMessage):
                await send({"type": "websocket.send", "text": event.data})
            elif isinstance(event, BytesMessage):
                await send({"type": "websocket.send", "bytes": bytes(event.data)})
            elif isinstance(event, CloseConnection):
                code, reason = event.code, event.reason or ""
    await send({"type": "websocket.close", "code": code, "reason": reason})


async def _to_agent(receive: Receive, agent: _AgentSocket) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await agent.say(TextMessage(message["text"]))
        else:
            await agent.say(BytesMessage(message["bytes"]))
    await agent.say(CloseConnection(1000))


@dataclass
class _AgentSocket:
    """This server's connection to the agent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    connection: WSConnection = field(default_factory=lambda: WSConnection(ConnectionType.CLIENT))
    subprotocol: str | None = None

    @classmethod
    async def open(cls, scope: Scope, address: str, tls: ssl.SSLContext | None) -> Self:
        host, port = split_host_port(address)
        try:
            async with asyncio.timeout(CONNECT_S):
                streams = await asyncio.open_connection(host, port, ssl=tls)
                agent = cls(*streams)
                await agent._shake_hands(scope, address)
        except (OSError, TimeoutError, ProtocolError) as error:
            raise UnavailableError(f"cannot reach the agent at {address}: {error}") from error
        return agent

    async def _shake_hands(self, scope: Scope, address: str) -> None:
        query = scope["query_string"].decode("latin-1")
        passed_on = [
            (name, value)
            for name, value in scope["headers"]
            if name not in (*_OWN, *_OF_A_PAGE) and not name.startswith(b"sec-websocket-")
        ]
        await self.say(
            Request(
                host=address,
                target=scope["path"] + (f"?{query}" if query else ""),
                subprotocols=list(scope.get("subprotocols", ())),
                extra_headers=[*passed_on, (_RELAYED, b"1")],
            )
        )
        async for event in self.events():
            if isinstance(event, AcceptConnection):
                self.subprotocol = event.subprotocol
                return
            if isinstance(event, RejectConnection):
                break
        self.close()
        raise UnavailableError(f"cannot talk to the agent at {address}: it does not take this")

    async def say(self, event: Event) -> None:
        self.writer.write(self.connection.send(event))
        await self.writer.drain()

    async def events(self) -> AsyncIterator[Event]:
        """Yields whole messages, up to the agent's last; answers pings on the way."""
        texts: list[str] = []
        pieces: list[bytes] = []
        while True:
            for event in self.connection.events():
                if isinstance(event, Ping):
                    await self.say(event.response())
                elif isinstance(event, TextMessage):
                    texts.append(event.data)
                    if event.message_finished:
                        yield TextMessage("".join(texts))
                        texts.clear()
                elif isinstance(event, BytesMessage):
                    pieces.append(bytes(event.data))
                    if event.message_finished:
                        yield BytesMessage(b"".join(pieces))
                        pieces.clear()
                else:
                    yield event
                if isinstance(event, CloseConnection):
                    return
            data = await self.reader.read(_READ_BYTES)
            if not data:
                return
            self.connection.receive_data(data)

    def close(self) -> None:
        self.writer.close()
