"""Checks who asks for the agent's own HTTP, while access control of the cluster is on.

An ASGI app in front of the agent's. A request that a server relays carries the server's proof that
it was checked there. For any other the agent asks the servers, which decide by the table of their
own HTTP; an answer counts for a moment, so that a client's next requests are not asked about.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.clock import Clock
from orchgit.errors import OrchgitError
from orchgit.wire.messages import AuthorizeReply, AuthorizeRequest
from orchgit.wire.relay_proof import HEADER, is_proven
from orchgit.wire.socket_token import accept_with_token, asks_for_handshake

WEBSOCKET = "WEBSOCKET"
KEPT_S = 1.0
"""How long an answer of the servers counts: a revoked token is refused within this time."""
_MOST_KEPT = 1000
_FAILED, _REFUSED = 1008, 1011
_MAX_REASON = 120


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """What the guard needs of the agent. `is_on`: whether access control of the cluster is on.
    `ask` raises an OrchgitError where no server answers."""

    node_id: str
    node_secret: str
    clock: Clock
    is_on: bool
    ask: Callable[[AuthorizeRequest], Awaitable[AuthorizeReply]]

    def proves(self, scope: Scope) -> bool:
        """Whether the request carries a server's proof that it was checked there."""
        values = [value for name, value in scope["headers"] if name == HEADER]
        return len(values) == 1 and is_proven(
            self.node_secret,
            _method(scope),
            scope["path"],
            scope["query_string"],
            self.clock.now_ns(),
            values[0],
        )


class _EndedError(Exception):
    """Ends an answer whose caller has lost the right to it."""


class AccessGuard:
    def __init__(self, app: ASGIApp, access: Callable[[], NodeAccess]) -> None:
        self._app = app
        self._access = access
        self._kept: OrderedDict[bytes, tuple[float, AuthorizeReply]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_options = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if is_options or not self._access().is_on or self._access().proves(scope):
            await self._app(scope, receive, send)
            return
        if asks_for_handshake(scope):
            socket = await accept_with_token(scope, receive, send)
            receive, send = socket.receive, socket.send
        refusal = await self._refusal(scope)
        if refusal.status:
            await _refuse(scope, receive, send, refusal)
            return

        async def checked_send(message: Message) -> None:
            if message.get("more_body") or message["type"] == "websocket.send":
                later = await self._refusal(scope)
                if later.status:
                    await _end(scope, send, later)
                    raise _EndedError
            await send(message)

        try:
            await self._app(scope, receive, checked_send)
        except* _EndedError:
            pass

    async def note_caller(self, scope: Scope) -> None:
        """Asks the servers whose token a request bears that they will answer, for `asked_by`."""
        await self._refusal(scope)

    def asked_by(self, scope: Scope) -> AuthorizeReply:
        """Returns what the servers said of the request's token, for the audit log; an empty reply
        for a request that they were not asked about."""
        known = self._kept.get(_key(self._question(scope)))
        return known[1] if known is not None else AuthorizeReply()

    def _question(self, scope: Scope) -> AuthorizeRequest:
        access = self._access()
        return AuthorizeRequest(
            node_id=access.node_id,
            secret_id=access.node_secret,
            method=_method(scope),
            path=scope["path"],
            query=scope["query_string"],
            token=_token(scope),
        )

    async def _refusal(self, scope: Scope) -> AuthorizeReply:
        """Returns what the servers say, or said a moment ago; a reply without a status allows."""
        access = self._access()
        now_s = access.clock.monotonic_s()
        request = self._question(scope)
        key = _key(request)
        known = self._kept.get(key)
        if known is not None and now_s - known[0] < KEPT_S:
            return known[1]
        try:
            reply = await access.ask(request)
        except OrchgitError as error:
            return AuthorizeReply(503, f"cannot check the token: {error}")
        self._kept[key] = now_s, reply
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return reply


def _key(request: AuthorizeRequest) -> bytes:
    asked = (request.method, request.path, request.query, request.token)
    return hashlib.sha256(repr(asked).encode()).digest()


def _method(scope: Scope) -> str:
    return str(scope["method"]) if scope["type"] == "http" else WEBSOCKET


def _token(scope: Scope) -> str:
    """Returns the request's token: `X-Nomad-Token`, or else `Authorization: Bearer`."""
    bearer = ""
    for name, value in scope["headers"]:
        if name == b"x-nomad-token" and value:
            return str(value, "latin-1").strip()
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            bearer = str(value[7:], "latin-1").strip()
    return bearer


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: AuthorizeReply) -> None:
    if scope["type"] == "http":
        await PlainTextResponse(refusal.text, refusal.status)(scope, receive, send)
        return
    # Clients see the reason only of a websocket that was accepted.
    await receive()
    await send({"type": "websocket.accept"})
    await send(_closed(refusal))


async def _end(scope: Scope, send: Send, refusal: AuthorizeReply) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.body", "body": b""})
    else:
        await send(_closed(refusal))


def _closed(refusal: AuthorizeReply) -> Message:
    code = _FAILED if refusal.text.startswith("rpc error:") else _REFUSED
    return {"type": "websocket.close", "code": code, "reason": refusal.text[:_MAX_REASON]}
