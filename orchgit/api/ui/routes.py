"""Answers `/ui/`: pages, their live updates, the login, and the files that pages load.

Pages only read. A token is kept in a cookie that no script sees and that no other site's page can
make the browser send; it goes nowhere but to this API.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from orchgit.api.event_buffer import EventBuffer
from orchgit.api.ui.inner_client import AnswerError, InnerClient
from orchgit.api.ui.pages import find_page
from orchgit.api.ui.rendering import DIRECTORY, render
from orchgit.clock import Clock
from orchgit.errors import OrchgitError
from orchgit.query_values import first_values

COOKIE = "orchgit_token"
ONE_TIME = "ott"
"""The parameter of a link that holds a one-time token, as in Nomad's."""
MAX_LIVE = 64
"""Pages that are kept up to date at once; one more is shown as it is."""
_LIVE_EVERY_S = 1.0
_LIVE_AT_LEAST_EVERY_S = 15.0
_PAUSE_FACTOR = 4
"""A page is made again at most in this share of the time."""
_MAX_TOKEN = 4_096
_MAX_FORM_BYTES = 16 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]+")
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Cookie",
}


class Ui:
    """`api` returns the whole API, with its checks; `events` tells when pages may have changed.
    `label` is shown on every page."""

    def __init__(
        self, api: Callable[[], ASGIApp], events: EventBuffer, clock: Clock, label: str = ""
    ) -> None:
        self._label = label
        self._api = api
        self._events = events
        self._clock = clock
        self._live = 0

    @property
    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", _to_pages),
            Route("/ui", _to_sources),
            Route("/ui/", _to_sources),
            Route("/ui/login", self._login, methods=["GET", "POST"]),
            Route("/ui/logout", self._logout, methods=["POST"]),
            Route("/ui/live", self._updates),
            Route("/ui/static/{name}", _static),
            Route("/ui/{rest:path}", self._page),
        ]

    async def _page(self, request: Request) -> Response:
        if ONE_TIME in request.query_params:
            return _to_login(request)
        address = _address(request)
        try:
            html = await self._html(request, address)
        except AnswerError as error:
            return await self._error(request, error)
        return Response(html, headers=HEADERS, media_type="text/html")

    async def _html(self, request: Request, address: str, whole: bool = True) -> str:
        """Returns the page at the address, or only what changes of it."""
        path, _, query = address.partition("?")
        page, names = find_page(path)
        token = request.cookies.get(COOKIE, "")
        client = InnerClient(self._api, request.scope, token)
        try:
            values = await page.load(client, names, first_values(query))
        except AnswerError:
            raise
        except (OrchgitError, ConnectionError) as error:  # the leader may be lost in its answer
            raise AnswerError(500, str(error)) from error
        shown = {
            **values,
            "label": self._label,
            "section": page.section,
            "has_token": bool(token),
            "layout": "layout.html" if whole else "part.html",
            "live": f"/ui/live?page={quote(address, safe='')}",
        }
        return await asyncio.to_thread(render, page.template, shown)

    async def _error(self, request: Request, error: AnswerError) -> Response:
        status = error.status if 400 <= error.status < 600 else 500
        titles = {404: "Not found", 403: "Not allowed", 401: "Not allowed"}
        shown = {
            "label": self._label,
            "title": titles.get(status, "Cannot show this page"),
            "text": str(error),
            "status": status,
            "section": "",
            "has_token": COOKIE in request.cookies,
            "back": _address(request),
            "layout": "layout.html",
            "live": "",
        }
        html = await asyncio.to_thread(render, "error.html", shown)
        return Response(html, status_code=status, headers=HEADERS, media_type="text/html")

    # -- live updates ------------------------------------------------------------------------------

    async def _updates(self, request: Request) -> Response:
        """Sends the changing part of a page each time that it is another, as server-sent
        events."""
        address = request.query_params.get("page", "")
        if self._live >= MAX_LIVE:
            return Response("too many pages are live", 503, {**HEADERS, "Retry-After": "60"})
        try:
            first = await self._html(request, address, whole=False)
        except AnswerError as error:
            status = error.status if 400 <= error.status < 600 else 500
            return Response(str(error), status, HEADERS, media_type="text/plain")
        return StreamingResponse(
            self._parts(request, address, first),
            headers={**HEADERS, "X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )

    async def _parts(self, request: Request, address: str, first: str) -> AsyncIterator[str]:
        self._live += 1
        try:
            sent, seen = "", self._events.last_index
            html = first
            while not self._events.closed:
                yield f"event: part\ndata: {json.dumps(html)}\n\n" if html != sent else ": \n\n"
                sent = html
                if self._events.last_index == seen:
                    await self._events.wait(_LIVE_AT_LEAST_EVERY_S)
                seen, began_s = self._events.last_index, self._clock.monotonic_s()
                try:
                    html = await self._html(request, address, whole=False)
                except AnswerError as error:
                    # The browser loads the page again, which says what is wrong.
                    yield f"event: gone\ndata: {error.status}\n\n"
                    return
                spent_s = self._clock.monotonic_s() - began_s
                await self._clock.sleep(max(_LIVE_EVERY_S, _PAUSE_FACTOR * spent_s))
        finally:
            self._live -= 1

    # -- login -------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        if request.method == "POST":
            given = await _form(request)
        else:
            given = dict(request.query_params)
            # A link of another site must not log a person in as somebody else: it takes a click.
            foreign = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
            if request.method != "GET" or not given.get(ONE_TIME) or foreign:
                return await _login_page("", given, 200)
        one_time, token = given.get(ONE_TIME, "").strip(), given.get("token", "").strip()
        given.pop(ONE_TIME, None)
        if not _TOKEN.fullmatch(one_time or token) or len(token) > _MAX_TOKEN:
            return await _login_page("That is no token.", given, 400)
        try:
            if one_time:
                token = await self._exchanged(request, one_time)
            await InnerClient(self._api, request.scope, token).get("acl", "token", "self")
        except AnswerError as error:
            problem = f"The server refuses this token: {error}"
            if one_time and error.status == 403:
                problem = (
                    "This link was used before or is too old. `orchgit ui -authenticate` makes "
                    "another one."
                )
            return await _login_page(problem, given, 403)
        answer = RedirectResponse(_own_page(given.get("back", "")), 303, HEADERS)
        answer.set_cookie(
            COOKIE,
            token,
            path="/ui",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _exchanged(self, request: Request, one_time: str) -> str:
        """Returns the secret of the token that the one-time token stands for, which ends."""
        client = InnerClient(self._api, request.scope, "")
        body = {"OneTimeSecretID": one_time}
        answer = await client.put("acl", "token", "onetime", "exchange", body=body)
        return str(answer["Token"]["SecretID"])

    async def _logout(self, request: Request) -> Response:
        answer = RedirectResponse("/ui/login", 303, HEADERS)
        answer.delete_cookie(COOKIE, path="/ui", httponly=True, samesite="strict")
        return answer


def _to_login(request: Request) -> Response:
    """Sends a link with a one-time token to the login, which comes back without it."""
    query = {name: value for name, value in request.query_params.items() if name != ONE_TIME}
    back = request.url.path + (f"?{urlencode(query)}" if query else "")
    given = {ONE_TIME: request.query_params[ONE_TIME], "back": back}
    return RedirectResponse(f"/ui/login?{urlencode(given)}", 307, HEADERS)


async def _login_page(problem: str, given: Mapping[str, str], status: int) -> Response:
    shown = {
        "title": "Log in",
        "problem": problem,
        "back": _own_page(given.get("back", "")),
        "one_time": given.get(ONE_TIME, ""),
        "section": "",
        "has_token": False,
        "layout": "layout.html",
        "live": "",
    }
    html = await asyncio.to_thread(render, "login.html", shown)
    return Response(html, status_code=status, headers=HEADERS, media_type="text/html")


async def _form(request: Request) -> dict[str, str]:
    """Returns the fields of a form; none of one that is too large."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MAX_FORM_BYTES:
            return {}
    fields = parse_qs(content.decode("utf-8", "replace"), max_num_fields=10)
    return {name: values[0] for name, values in fields.items()}


def _own_page(text: str) -> str:
    """Returns the address if it is one of these pages, else that of the sources."""
    is_own = text.startswith("/ui/") and text.isprintable() and "\\" not in text
    return text if is_own and not text.startswith("/ui/log") else "/ui/sources"


def _address(request: Request) -> str:
    """Returns path and query as they are in the address: `%2F` in a name is not a slash."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    path = raw.partition(b"?")[0].decode("latin-1")
    return f"{path}?{query.decode('latin-1')}" if query else path


async def _to_pages(request: Request) -> Response:
    body = '<a href="/ui/">Temporary Redirect</a>.\n\n'
    headers = {"Location": "/ui/", "Vary": "Accept-Encoding"}
    return Response(body, 307, headers, media_type="text/html")


async def _to_sources(request: Request) -> Response:
    if ONE_TIME in request.query_params:
        return _to_login(request)
    return RedirectResponse("/ui/sources", 307)


@lru_cache(maxsize=1)
def _files() -> dict[str, tuple[bytes, str, str]]:
    """Returns content, type and tag of each file that pages load."""
    found = {}
    for path in sorted((DIRECTORY / "static").iterdir()):
        if path.suffix in _TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            found[path.name] = (content, _TYPES[path.suffix], tag)
    return found


async def _static(request: Request) -> Response:
    file = _files().get(request.path_params["name"])
    if file is None:
        return Response("There is no such file.", 404, HEADERS, media_type="text/plain")
    content, kind, tag = file
    headers: dict[str, Any] = {**HEADERS, "Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)
