"""The frames of one request of HTTP and of its answer, for an ASGI app that has a peer answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import Message, Receive, Scope, Send

from orchgit.wire.messages import HttpAnswer, HttpChunk, HttpDown, HttpHead, HttpUp


class RequestFrames:
    """The frames of a request whose `first` message has been received.

    `gone` is set when the client is known to have gone, `body_ended` after the last chunk.
    """

    def __init__(self, scope: Scope, receive: Receive, first: Message) -> None:
        self._scope = scope
        self._receive = receive
        self._first = first
        self.gone = asyncio.Event()
        self.body_ended = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[HttpUp]:
        scope, first = self._scope, self._first
        more = bool(first.get("more_body", False))
        yield HttpHead(
            method=scope["method"],
            path=scope["path"],
            raw_path=scope.get("raw_path") or scope["path"].encode(),
            query=scope["query_string"],
            headers=scope["headers"],
            scheme=scope.get("scheme", "http"),
            client=tuple(scope["client"]) if scope.get("client") else None,
            body=first.get("body", b""),
            more=more,
        )
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                return
            more = message.get("more_body", False)
            yield HttpChunk(message.get("body", b""), more)
        self.body_ended.set()


async def send_answer(send: Send, frame: HttpDown) -> None:
    """Passes a frame of the answer on to the client."""
    body = frame.data if isinstance(frame, HttpChunk) else frame.body
    if isinstance(frame, HttpAnswer):
        await send(
            {"type": "http.response.start", "status": frame.status, "headers": frame.headers}
        )
        if frame.more and not body:
            return
    await send({"type": "http.response.body", "body": body, "more_body": frame.more})
