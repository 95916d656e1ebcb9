"""An ASGI app in front of an HTTP listener that records every request twice.

`OperationReceived` is written before anything else is done, `OperationComplete` before the client
gets the first byte of the answer; for a websocket whose first message has its token, after that
message. Where delivery is enforced, a request without its first record is
refused, and an answer without its second is withheld.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.clock import Clock
from orchgit.ids import IdSource
from orchgit.printable import printable
from orchgit.server.audit.records import (
    AuditAuth,
    AuditPayload,
    AuditRecord,
    AuditRequest,
    AuditResponse,
    NodeMeta,
    RequestMeta,
    RequestNamespace,
    timestamp,
)
from orchgit.server.audit.settings import AuditSettings, Stage
from orchgit.server.audit.writer import AuditWriter
from orchgit.wire.socket_token import asks_for_handshake

Identify = Callable[[Scope], AuditAuth]
"""Says whose token a request bears, without a failure for a bad one."""

_MAX_TEXT = 2048
_NOT_WRITTEN = (
    "cannot answer: the record of the request could not be written to the audit log; the server's "
    "log says why"
)
_NORMAL = 1000
_BEFORE_TOKEN_IS_SEEN = 2
"""Messages of a client: that it connects, and its token."""
_SWITCHED, _REFUSED, _FAILED, _GONE = 101, 403, 500, 499


def nobody(scope: Scope) -> AuditAuth:
    return AuditAuth()


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The audit log of one listener. `address` is the listener's own."""

    settings: AuditSettings
    clock: Clock
    ids: IdSource
    writer: AuditWriter
    identify: Identify = nobody

    def around(self, app: ASGIApp, address: Callable[[], str]) -> ASGIApp:
        async def audited(scope: Scope, receive: Receive, send: Send) -> None:
            await _Exchange(self, scope, send, address()).run(app, receive)

        return audited

    async def close(self) -> None:
        await self.writer.close()


def audit_log(
    settings: AuditSettings | None,
    data_dir: Path,
    clock: Clock,
    ids: IdSource,
    identify: Identify = nobody,
) -> AuditLog | None:
    """Returns the audit log of a listener, or None where none is wanted."""
    if settings is None:
        return None
    settings = replace(settings, path=data_dir / settings.path)
    return AuditLog(settings, clock, ids, AuditWriter(settings, clock), identify)


class _Exchange:
    """One request and its answer."""

    def __init__(self, log: AuditLog, scope: Scope, send: Send, address: str) -> None:
        self._log = log
        self._scope = scope
        self._send = send
        self._id = log.ids.new()
        self._operation = scope.get("method", "WEBSOCKET")
        self._is_complete = False
        self._is_withheld = False
        self._awaits_token = asks_for_handshake(scope)
        self._received = 0
        self._request = self._described(address)

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        if not await self._write(Stage.RECEIVED):
            await self._refuse()
            return
        try:
            await app(self._scope, partial(self._taken, receive), self._pass_on)
        except Exception:
            await self._complete(_FAILED)
            raise
        await self._complete(_GONE)

    async def _taken(self, receive: Receive) -> Message:
        """Returns the client's next message. Whoever asks for the third one of a websocket has seen
        the token in the second."""
        self._received += 1
        if self._awaits_token and self._received > _BEFORE_TOKEN_IS_SEEN:
            await self._complete(_SWITCHED)
        return await receive()

    async def _pass_on(self, message: Message) -> None:
        status = _status_after_token(message) if self._awaits_token else _status_of(message)
        if status is not None and not await self._complete(status):
            self._is_withheld = True
            await self._refuse()
        if not self._is_withheld:
            await self._send(message)

    async def _complete(self, status: int) -> bool:
        """Returns whether the answer may be sent. Only the first call records anything."""
        if self._is_complete:
            return True
        self._is_complete = True
        return await self._write(Stage.COMPLETE, AuditResponse(status))

    async def _write(self, stage: Stage, response: AuditResponse | None = None) -> bool:
        log, request = self._log, self._request
        if not log.settings.records(request.endpoint, stage, self._operation):
            return True
        now = timestamp(log.clock.now_ns())
        auth = log.identify(self._scope)
        payload = AuditPayload(self._id, stage, now, auth, request, response)
        return await log.writer.write(AuditRecord(now, payload).line())

    async def _refuse(self) -> None:
        if self._scope["type"] == "websocket":
            await self._send(
                {"type": "websocket.close", "code": 1011, "reason": _NOT_WRITTEN[:120]}
            )
            return

        async def nothing() -> Message:
            return {"type": "http.disconnect"}

        await PlainTextResponse(_NOT_WRITTEN, _FAILED)(self._scope, nothing, self._send)

    def _described(self, address: str) -> AuditRequest:
        scope = self._scope
        query = parse_qs(scope["query_string"][:_MAX_TEXT].decode("latin-1"))
        client = scope.get("client")
        agent = next((value for name, value in scope["headers"] if name == b"user-agent"), b"")
        return AuditRequest(
            id=self._log.ids.new(),
            operation=self._operation,
            endpoint=printable(scope["path"][:_MAX_TEXT]),
            namespace=RequestNamespace(printable(query.get("namespace", ["default"])[0][:128])),
            request_meta=RequestMeta(
                f"{client[0]}:{client[1]}" if client else "",
                printable(agent[:_MAX_TEXT].decode("latin-1")),
            ),
            node_meta=NodeMeta(address),
        )


def _status_after_token(message: Message) -> int | None:
    """Returns what `_status_of` does for a websocket that was accepted to hear its token."""
    match message["type"]:
        case "websocket.send":
            return _SWITCHED
        case "websocket.close":
            return _SWITCHED if message.get("code", _NORMAL) == _NORMAL else _REFUSED
    return None


def _status_of(message: Message) -> int | None:
    """Returns the status that a message tells the client; None for one that tells none."""
    match message["type"]:
        case "http.response.start":
            return int(message["status"])
        case "websocket.accept":
            return _SWITCHED
        case "websocket.close" | "websocket.http.response.start":
            return int(message.get("status", _REFUSED))
    return None
