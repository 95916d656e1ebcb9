"""How the agent's routes answer: JSON in Nomad's shapes, errors as plain text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from orchgit.errors import InvalidInputError, NotAllowedError, OrchgitError, TooLargeError
from orchgit.http_status import status_of
from orchgit.query_values import first_values
from orchgit.whole_number import whole_number

Handler = Callable[[Request], Awaitable[Response]]


def json_reply(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def on_error(_request: Request, problem: Exception) -> Response:
    return PlainTextResponse(str(problem), status_of(problem))


def no_route(request: Request, _: Exception) -> Response:
    """Tells who asks an agent for what servers answer where to ask."""
    path = request.url.path
    if path.startswith("/v1/client/"):
        return PlainTextResponse("Not Found", 404)
    return PlainTextResponse(
        f"cannot answer {path} here: this agent runs no server, and without access control it "
        "passes nothing on; give the address of a server",
        404,
    )


ERROR_HANDLERS: Mapping[Any, Any] = {OrchgitError: on_error, 404: no_route}


async def body_of(request: Request, limit_bytes: int = 1 << 20) -> dict[str, object]:
    """The JSON object a request carries, keys without regard to case; {} when it carries none."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > limit_bytes:
            raise TooLargeError(f"cannot read the request: over {limit_bytes} bytes")
    if not data.strip():
        return {}
    try:
        value = msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read the request: {error}") from None
    return {key.lower(): item for key, item in value.items()}


def number(request: Request, name: str, default: int | None = None, least: int = 0) -> int:
    """A query parameter as an integer that is not smaller than `least`."""
    text = first_values(request.scope["query_string"]).get(name, "")
    if not text and default is not None:
        return default
    found = whole_number(text)
    if found is None or found < least:
        raise InvalidInputError(
            f'error parsing {name}: strconv.ParseInt: parsing "{text}": invalid syntax'
            if found is None
            else f"error parsing {name}: {text} is less than {least}"
        )
    return found


def check_no_page(request: Request) -> None:
    """Raises NotAllowedError for a GET of a browser.

    Nomad documents some requests that change something with GET, and its Go client sends them so:
    they are taken from programs. A page of any site can make a browser send them.
    """
    headers = request.headers
    marks = ("origin", "sec-fetch-site", "sec-fetch-mode")
    of_browser = headers.get("user-agent", "").startswith("Mozilla/")
    if request.method in ("GET", "HEAD") and (of_browser or any(mark in headers for mark in marks)):
        raise NotAllowedError(f"cannot do {request.url.path} by GET for a browser: use PUT")


def flag(request: Request, name: str) -> bool:
    text = first_values(request.scope["query_string"]).get(name, "").lower()
    if text not in ("", "true", "false", "1", "0", "t", "f"):
        raise InvalidInputError(f'Failed to parse value of "{name}" ({text}) as a bool')
    return text in ("true", "1", "t")
