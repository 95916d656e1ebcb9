"""Tells browsers which pages of other sites may read answers (CORS).

Pages of any site may read what a node's agent answers, and variables, with a token that they send
themselves; so it is in Nomad. `Access-Control-Allow-Origin` in `http_api_response_headers` names
one origin for every route instead, and pages of that origin may also write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALLOW_ORIGIN = "access-control-allow-origin"
_OPEN_PATHS = ("/v1/var", "/v1/client/")
_NOT_OPEN = "/v1/client/gc"
_ANY = b"*"
_OF_BROWSERS = frozenset(
    (b"origin", b"access-control-request-method", b"access-control-request-headers")
)


def is_open_path(path: str) -> bool:
    """Returns whether pages of any site may read the answers of this path."""
    return path.startswith(_OPEN_PATHS) and not path.startswith(_NOT_OPEN)


def configured_origin(headers: Mapping[str, str]) -> str:
    """Returns the origin that the configuration names for every route; "" where it names none."""
    return next((value for name, value in headers.items() if name.lower() == ALLOW_ORIGIN), "")


class Cors:
    """An ASGI app in front of `app`. `origin` is the configured one, which the listener itself
    adds to every answer."""

    def __init__(self, app: ASGIApp, origin: str = "") -> None:
        self._app = app
        self._origin = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_open = is_open_path(scope["path"])
        asked = {name: value for name, value in scope["headers"] if name in _OF_BROWSERS}
        is_preflight = scope["method"] == "OPTIONS" and b"access-control-request-method" in asked
        if not is_open and not is_preflight:
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = _without_vary(message) if is_open else list(message["headers"])
                if is_open:
                    headers.append((b"vary", b"Origin"))
                if is_open and b"origin" in asked and not self._origin:
                    headers.append((ALLOW_ORIGIN.encode(), _ANY))
                if is_preflight:
                    headers += _granted(message["headers"], asked)
                is_allowed = is_preflight and message["status"] == 405
                status = 204 if is_allowed else message["status"]
                message = {**message, "headers": headers, "status": status}
            await send(message)

        await self._app(scope, receive, with_headers)


def _without_vary(message: Message) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an answer without `Vary`, unless it was compressed for this caller."""
    headers: list[tuple[bytes, bytes]] = list(message["headers"])
    if any(name == b"content-encoding" for name, _ in headers):
        return headers
    return [each for each in headers if each[0] != b"vary"]


def _granted(
    sent: list[tuple[bytes, bytes]], asked: Mapping[bytes, bytes]
) -> list[tuple[bytes, Any]]:
    """Returns what a preflight grants: the methods of the route, and the headers it asks for."""
    methods = next((value for name, value in sent if name == b"allow"), b"")
    found = [(b"access-control-allow-methods", methods)]
    if headers := asked.get(b"access-control-request-headers"):
        found.append((b"access-control-allow-headers", headers))
    return found
