"""Keeps pages of other sites from making a browser act on this listener.

An ASGI app in front of every listener. It refuses requests under a name that is not this server's
(DNS rebinding). It also refuses whatever changes something, or opens a websocket, for a page of
another origin, unless the configuration names that origin. Programs send neither `Origin` nor
`Sec-Fetch-Site`, so nothing changes for them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from orchgit.errors import InvalidInputError, NotAllowedError, OrchgitError
from orchgit.server.http.host_names import HostNames

_SAFE = ("GET", "HEAD", "OPTIONS")
_DEFAULT_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}
_OF_A_PAGE = frozenset((b"origin", b"sec-fetch-site"))
_LOOKED_AT = _OF_A_PAGE | {b"host"}
_MOST_KNOWN = 1000


class BrowserGuard:
    """Passes allowed requests on to the app, which answers under `names`. `friend` is the origin of
    other pages that may write, or ''."""

    def __init__(self, app: ASGIApp, names: HostNames, friend: str = "") -> None:
        self._app = app
        self._names = names
        self._friend = friend.lower()
        self._known: set[bytes] = set()
        """Values of Host that were found to be allowed."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        host = None
        for name, value in scope["headers"]:
            if name in _LOOKED_AT:
                if name != b"host" or host is not None:
                    break
                host = value
        else:
            if host in self._known:  # nothing else is to be checked: so it is for most requests
                return self._app(scope, receive, send)
        try:
            self._check(scope)
        except OrchgitError as error:
            return _refuse(scope, receive, send, error)
        return self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raises InvalidInputError or NotAllowedError with the reason for a refusal."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1:
            raise InvalidInputError("cannot take the request: it has two Host headers")
        host = hosts[0] if hosts else b""
        if hosts and host not in self._known:
            self._check_host(host)
        page = {name: value for name, value in scope["headers"] if name in _OF_A_PAGE}
        if page and (scope["type"] == "websocket" or scope["method"] not in _SAFE):
            self._check_page(host, page.get(b"origin"), page.get(b"sec-fetch-site"))

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1")
        if not self._names.allows(text):
            raise NotAllowedError(
                f"cannot answer as {text[:200]!r}: that is no name of this server; use its address "
                "or a name of its certificate, or add the name to http_allowed_hosts in its "
                "configuration"
            )
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(host)

    def _check_page(self, host: bytes, origin: bytes | None, site: bytes | None) -> None:
        if origin is not None and self._friend and origin.decode("latin-1").lower() == self._friend:
            return
        if origin is None:
            if site not in (b"same-origin", b"none"):
                raise NotAllowedError("cannot change anything for a page of another site")
            return
        text = origin.decode("latin-1")
        if not self._is_own(text, host.decode("latin-1")):
            raise NotAllowedError(
                f"cannot change anything for a page of {text[:200]}: it is another site"
            )

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        default = _DEFAULT_PORTS.get(parts.scheme)
        if default is None or not parts.netloc:
            return False
        same = parts.netloc.lower().removesuffix(default) == host.lower().removesuffix(default)
        # A name that a person gave is the server's own behind a proxy that changes Host.
        return same or self._names.names(parts.netloc)


async def _refuse(scope: Scope, receive: Receive, send: Send, error: OrchgitError) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": ""})  # becomes a 403
        return
    text = f"{error}\n".encode()
    status = 400 if isinstance(error, InvalidInputError) else 403
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(text)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
