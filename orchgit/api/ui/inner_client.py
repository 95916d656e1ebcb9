"""Asks the API of this server for the data of a page, as the reader of the page.

A page sees what its reader's token may see and no more: each question is a request to the API with
that token, which any check of the API refuses as it would refuse a program's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.types import ASGIApp, Message, Scope

from orchgit.errors import OrchgitError

MAX_ANSWER_BYTES = 32 * 1024 * 1024
_KEPT_HEADERS = frozenset((b"host", b"user-agent", b"x-forwarded-for"))


class AnswerError(OrchgitError):
    """The API refused to answer; `status` is that of HTTP, the message its text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class InnerClient:
    """The API for one reader, whose request is `scope`. `token` is '' for a reader without one."""

    def __init__(self, api: Callable[[], ASGIApp], scope: Scope, token: str) -> None:
        self._api = api
        self._scope = scope
        self._token = token

    async def get(self, *parts: str, **query: str | int) -> Any:
        """Returns the answer to a GET. Each part of the path is a name of any characters. Raises
        AnswerError for any status but 200."""
        return (await self.page(*parts, **query))[0]

    async def page(self, *parts: str, **query: str | int) -> tuple[Any, str]:
        """As `get`, with the token of the next page, or ''."""
        status, headers, body = await self._ask("/v1/" + "/".join(parts), query)
        if status != 200:
            raise AnswerError(status, body.decode("utf-8", "replace")[:2_000])
        return msgspec.json.decode(body), headers.get(b"x-nomad-nexttoken", b"").decode("latin-1")

    async def put(self, *parts: str, body: Mapping[str, str]) -> Any:
        """Returns the answer to a PUT. Raises AnswerError as `get`."""
        path = "/v1/" + "/".join(parts)
        status, _, answer = await self._ask(path, {}, "PUT", msgspec.json.encode(body))
        if status != 200:
            raise AnswerError(status, answer.decode("utf-8", "replace")[:2_000])
        return msgspec.json.decode(answer)

    async def _ask(
        self,
        path: str,
        query: Mapping[str, str | int],
        method: str = "GET",
        content: bytes = b"",
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        headers = [each for each in self._scope["headers"] if each[0] in _KEPT_HEADERS]
        if self._token:
            headers.append((b"x-nomad-token", self._token.encode()))
        given = {name: value for name, value in query.items() if value != ""}
        asked = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": quote(path).encode(),
            "root_path": "",
            "query_string": urlencode(given).encode(),
            "headers": headers,
            **{key: self._scope.get(key) for key in ("asgi", "scheme", "server", "client")},
        }
        messages = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def receive() -> Message:
            for message in messages:
                return message
            # A server that forwards the request reads on until its client is gone: this one never
            # is, and its task ends with the answer.
            never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            return await never

        status = 500
        received: dict[bytes, bytes] = {}
        body = bytearray()

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                received.update({name.lower(): value for name, value in message["headers"]})
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if len(body) > MAX_ANSWER_BYTES:
                    raise AnswerError(500, "cannot show this: the answer is too large for a page")

        await self._api()(asked, receive, send)
        return status, received, bytes(body)
