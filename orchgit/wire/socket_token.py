"""Takes the token of a websocket from its first message, where a page cannot send headers.

With `ws_handshake=true` in the query the first message is `{"version": 1, "auth_token": "..."}`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec
from starlette.types import Message, Receive, Scope, Send

from orchgit.query_values import first_values

_ANSWER_S = 10.0
_MAX_BYTES = 64 * 1024


class _Hello(msgspec.Struct):
    version: int = 0
    auth_token: str = ""


@dataclass
class AcceptedSocket:
    """A websocket that was accepted here; the app behind accepts it once more, which is not sent
    on."""

    scope: Scope
    client_receive: Receive
    client_send: Send
    _connected: bool = False

    async def receive(self) -> Message:
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        return await self.client_receive()

    async def send(self, message: Message) -> None:
        if message["type"] != "websocket.accept":
            await self.client_send(message)


def asks_for_handshake(scope: Scope) -> bool:
    return (
        scope["type"] == "websocket"
        and first_values(scope["query_string"]).get("ws_handshake") == "true"
    )


async def accept_with_token(scope: Scope, receive: Receive, send: Send) -> AcceptedSocket:
    """Accepts the websocket; returns it with the token of its first message as a header.

    The header is in `scope` too, for the audit log around the caller. What is no such message, or
    does not come, counts as no token.
    """
    await receive()
    await send({"type": "websocket.accept"})
    token = ""
    try:
        async with asyncio.timeout(_ANSWER_S):
            message = await receive()
        data = message.get("text") or message.get("bytes") or b""
        if len(data) <= _MAX_BYTES:
            token = msgspec.json.decode(data, type=_Hello).auth_token
    except (TimeoutError, msgspec.DecodeError):
        token = ""
    headers = [pair for pair in scope["headers"] if pair[0] != b"x-nomad-token"]
    if token:
        headers.append((b"x-nomad-token", token.encode(errors="replace")))
    scope["headers"] = headers
    return AcceptedSocket(scope, receive, send)
