"""The leader's end of the tunnel: a request of HTTP that came to another server, given to the app.

What the app says travels back frame by frame, so blocking queries, event streams and pushes with
live output work as if the client were connected here. When the client (or the server it spoke to)
is gone, a read is canceled; a write is told so, and goes on to its end: it may be done already.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
from starlette.types import ASGIApp, Message, Scope

from orchgit.errors import InvalidInputError, OrchgitError, RefusedError
from orchgit.wait_first import wait_first
from orchgit.wire import methods
from orchgit.wire.messages import HttpAnswer, HttpChunk, HttpDown, HttpHead, HttpUp
from orchgit.wire.serve import GrpcServer

_log = structlog.get_logger(component="rpc")

MAX_CHUNK_BYTES = 1 << 20
_FRAMES_WAITING = 8
_SAFE = ("GET", "HEAD")


class HttpTunnel:
    """`app` raises NotLeaderError, before it has done anything, where this server does not lead."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._going_on: set[asyncio.Task[None]] = set()
        self.in_flight = 0

    def register(self, server: GrpcServer) -> None:
        server.add_stream(methods.HTTP, self.serve)

    async def serve(self, frames: AsyncIterator[HttpUp]) -> AsyncIterator[HttpDown]:
        head = await anext(frames, None)
        if not isinstance(head, HttpHead):
            raise InvalidInputError("cannot serve the request: its first frame must be a head")
        exchange = _Exchange(head, frames)
        work = asyncio.create_task(exchange.run(self._app), name="forwarded request")
        self.in_flight += 1
        try:
            async for frame in exchange.answer():
                yield frame
            await work
        finally:
            self.in_flight -= 1
            exchange.client_gone()
            self._leave(work, head.method)

    def _leave(self, work: asyncio.Task[None], method: str) -> None:
        if work.done():
            return
        if method in _SAFE:
            work.cancel()
        self._going_on.add(work)
        work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Task[None]) -> None:
        self._going_on.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.debug("a forwarded request ended without its client", error=str(error))

    async def close(self) -> None:
        """Cut what still goes on without its client."""
        for work in list(self._going_on):
            work.cancel()
        await asyncio.gather(*self._going_on, return_exceptions=True)


class _Exchange:
    """One request and its answer, between the app and the frames."""

    def __init__(self, head: HttpHead, frames: AsyncIterator[HttpUp]) -> None:
        self._head = head
        self._frames = frames
        self._up: asyncio.Queue[Message] = asyncio.Queue(_FRAMES_WAITING)
        self._down: asyncio.Queue[HttpDown | None] = asyncio.Queue(_FRAMES_WAITING)
        self._up.put_nowait(_body(head.body, head.more))
        self._held: HttpAnswer | None = None
        self._started = False
        self._gone = asyncio.Event()

    # -- the app's side --------------------------------------------------------------------------

    async def run(self, app: ASGIApp) -> None:
        """Raises the app's error if it had not begun to answer."""
        reading = asyncio.create_task(self._read()) if self._head.more else None
        try:
            await app(_scope(self._head), self._receive, self._send)
        except Exception as error:
            if not self._started and isinstance(error, OrchgitError):
                raise
            _log.error("a forwarded request failed", path=self._head.path, exc_info=error)
            raise RefusedError("cannot answer: the server failed; its log says why") from error
        finally:
            if reading is not None:
                reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._put(None)

    async def _read(self) -> None:
        try:
            async for frame in self._frames:
                if not isinstance(frame, HttpChunk):
                    break
                await self._up.put(_body(frame.data, frame.more))
                if not frame.more:
                    return
        except Exception as error:  # noqa: BLE001 - whatever ended the stream, the client is gone
            _log.debug("the body of a forwarded request ended early", error=str(error))
        self._gone.set()

    async def _receive(self) -> Message:
        if not self._up.empty():
            return self._up.get_nowait()
        async with wait_first(self._up.get(), self._gone.wait()) as (more, _):
            return more.result() if more.done() else {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._held = HttpAnswer(message["status"], list(message["headers"]), b"", True)
            self._started = True
            asyncio.get_running_loop().call_soon(self._let_go)
        elif message["type"] == "http.response.body":
            await self._send_body(message.get("body", b""), message.get("more_body", False))

    def _let_go(self) -> None:
        """Headers whose body is not there at once go ahead alone."""
        if self._held is not None and not self._down.full():
            self._down.put_nowait(self._held)
            self._held = None

    async def _send_body(self, data: bytes, more: bool) -> None:
        first, rest = data[:MAX_CHUNK_BYTES], data[MAX_CHUNK_BYTES:]
        held, self._held = self._held, None
        if held is not None:
            await self._put(HttpAnswer(held.status, held.headers, first, more or bool(rest)))
        elif data or not more:
            await self._put(HttpChunk(first, more or bool(rest)))
        while rest:
            first, rest = rest[:MAX_CHUNK_BYTES], rest[MAX_CHUNK_BYTES:]
            await self._put(HttpChunk(first, more or bool(rest)))

    async def _put(self, frame: HttpDown | None) -> None:
        """Waits until there is room; without a client there is nobody to wait for."""
        if self._gone.is_set():
            return
        if not self._down.full():
            self._down.put_nowait(frame)
            return
        async with wait_first(self._down.put(frame), self._gone.wait()):
            pass

    # -- the frames' side ------------------------------------------------------------------------

    async def answer(self) -> AsyncIterator[HttpDown]:
        while (frame := await self._down.get()) is not None:
            yield frame

    def client_gone(self) -> None:
        self._gone.set()


def _body(data: bytes, more: bool) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


def _scope(head: HttpHead) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": head.method,
        "scheme": head.scheme,
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": "",
        "headers": head.headers,
        "client": head.client,
        "server": None,
        "state": {},
    }
