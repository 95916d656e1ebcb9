"""Guards what is not an endpoint of the API: paths of nodes' agents, websockets, the git remote.

An ASGI app in front of another one. It asks the access table, and ends long answers as soon as
their caller has lost the right to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.api.access.control import DENIED, AccessControl, AccessRefusedError, Refusal
from orchgit.api.access.enforcement import admit, refusal_response
from orchgit.api.access.table import TABLE
from orchgit.api.call import ApiCall
from orchgit.api.context import ApiContext
from orchgit.api.errors import VARY, text_response
from orchgit.query_values import first_values
from orchgit.services.allocations.migration import is_proven_taker
from orchgit.wire.relay_proof import HEADER
from orchgit.wire.socket_token import accept_with_token, asks_for_handshake

_OF_AGENTS = "/v1/client/"
"""A node's agent has more paths than the table, should one be forgotten here: they are refused."""
_DATA = "/v1/client/allocation/{alloc_id}/snapshot"
"""The only path that agents of other nodes ask for."""
WEBSOCKET = "WEBSOCKET"
_FILE_ACTIONS = frozenset(("ls", "stat", "cat", "readat", "stream", "logs"))
_NO_COMMAND = "failed to marshal command into json: unexpected end of JSON input"
_NO_SOCKET = "cannot run a command over plain HTTP: connect with a websocket"
_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
_REFUSED = 1011
_BAD_TOKEN = 1008
_MAX_REASON = 120


class Guard:
    """Passes on what the table allows. `paths` are those of the rows that the app serves; a request
    for another path is passed on too, since nothing is there."""

    def __init__(self, app: ASGIApp, api: ApiContext, paths: Sequence[str]) -> None:
        self._app = app
        self._api = api
        # The path with the longest fixed part counts, whatever the order of the table.
        by_length = sorted(paths, key=lambda path: -len(path.partition("{")[0]))
        self._paths = [(compile_path(path)[0], path) for path in by_length]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        control = self._api.access
        is_options = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if is_options and (methods := self._methods(scope["path"])):
            answer = Response(status_code=204, headers={**VARY, "Allow": methods})
            await answer(scope, receive, send)
            return
        found = self._find(scope, control) if control is not None else None
        if scope["type"] == "http" and (unknown := self._unknown(scope)) is not None:
            await unknown(scope, receive, send)
            return
        if control is not None and found is None and scope["path"].startswith(_OF_AGENTS):
            await _refuse(scope, receive, send, Refusal(403, DENIED))
            return
        if control is None or found is None:
            await self._app(scope, receive, send)
            return
        if asks_for_handshake(scope):
            socket = await accept_with_token(scope, receive, send)
            scope, receive, send = socket.scope, socket.receive, socket.send
        path, method, parameters = found
        if path == _DATA and self._is_taken_over(scope, parameters["alloc_id"]):
            await self._app(scope, receive, send)
            return
        request = Request(
            {**scope, "type": "http", "method": method, "path_params": parameters}, receive
        )
        call = ApiCall(request, self._api)
        try:
            await admit(call, path, control)
        except AccessRefusedError as error:
            await _refuse(scope, receive, send, error.refusal)
            return
        await while_allowed(call, self._app, scope, receive, send)

    def _is_taken_over(self, scope: Scope, alloc_id: str) -> bool:
        """Returns whether another node's agent proves that it takes over the allocation's data."""
        if all(name != HEADER for name, _ in scope["headers"]):
            return False  # most requests: nothing is read for them
        return is_proven_taker(self._api.services.context, alloc_id, scope)

    def _unknown(self, scope: Scope) -> Response | None:
        """Returns the answer to a path below the agents' that no request finds, or None."""
        path = scope["path"]
        if not path.startswith(_OF_AGENTS):
            return None
        if path.endswith("/exec"):
            command = first_values(scope["query_string"]).get("command", "")
            return text_response(_NO_SOCKET if command else _NO_COMMAND, 400 if command else 500)
        if any(each.match(path) for each, _ in self._paths):
            return None
        kind, _, rest = path.removeprefix(_OF_AGENTS).partition("/")
        action, _, of = rest.partition("/")
        if kind == "fs" and action in _FILE_ACTIONS and not of:
            return text_response("must provide a valid alloc id", 400)
        texts = {"fs": "Invalid method", "allocation": "resource not found"}
        return text_response(texts.get(kind, ""), 404)

    def _methods(self, path: str) -> str:
        """Returns the methods of an agent's path; "" for a path that is not an agent's."""
        if not path.startswith(_OF_AGENTS):
            return ""
        row = next((row for pattern, row in self._paths if pattern.match(path)), None)
        found = [method for method in _METHODS if row is not None and TABLE.rule(row, method)]
        return ", ".join([*found, "OPTIONS"]) if found else ""

    def _find(self, scope: Scope, control: AccessControl) -> tuple[str, str, dict[str, str]] | None:
        """Returns (path of a row, method, parameters); None where no row is about the request."""
        if scope["type"] not in ("http", "websocket"):
            return None
        method = scope["method"] if scope["type"] == "http" else WEBSOCKET
        for pattern, path in self._paths:
            match = pattern.match(scope["path"])
            if match is not None and control.has_rule(path, method):
                return path, method, match.groupdict()
        return None


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "http":
        await refusal_response(refusal)(scope, receive, send)
        return
    # Clients see the reason only of a websocket that was accepted.
    code = _BAD_TOKEN if refusal.text.startswith("rpc error:") else _REFUSED
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code, "reason": refusal.text[:_MAX_REASON]})


class _EndedError(Exception):
    """Ends an answer whose caller has lost the right to it."""


async def while_allowed(
    call: ApiCall, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Has the app answer; ends a stream or websocket at its first message after the caller lost the
    right."""

    async def checked_send(message: Message) -> None:
        if message.get("more_body") or message["type"] == "websocket.send":
            try:
                call.refresh_access()
            except AccessRefusedError as error:
                await _end(scope, send, error.refusal)
                raise _EndedError from error
        await send(message)

    async def checked_receive() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive":
            try:
                call.refresh_access()
            except AccessRefusedError as error:
                await _end(scope, send, error.refusal)
                raise _EndedError from error
        return message

    try:
        await app(scope, checked_receive, checked_send)
    except* _EndedError:
        pass


async def _end(scope: Scope, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.body", "body": b""})
    else:
        reason = refusal.text[:_MAX_REASON]
        await send({"type": "websocket.close", "code": _BAD_TOKEN, "reason": reason})
