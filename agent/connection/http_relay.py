"""Has the server in use answer a request of HTTP that came to the agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from orchgit.errors import OrchgitError
from orchgit.http_status import status_of
from orchgit.wait_first import wait_first
from orchgit.wire.http_frames import RequestFrames, send_answer
from orchgit.wire.messages import HttpDown, HttpUp

OpenRequest = Callable[[AsyncIterator[HttpUp]], AsyncGenerator[HttpDown]]
"""Has the server in use answer a request; raises UnavailableError while there is none."""


async def answer_by_server(
    open_request: OpenRequest, scope: Scope, receive: Receive, send: Send
) -> None:
    frames = RequestFrames(scope, receive, await receive())
    began = False

    async def relay() -> None:
        nonlocal began
        async with aclosing(open_request(aiter(frames))) as answer:
            async for frame in answer:
                began = True
                await send_answer(send, frame)

    async def until_gone() -> None:
        async with wait_first(frames.body_ended.wait(), frames.gone.wait()):
            pass
        while not frames.gone.is_set() and (await receive())["type"] != "http.disconnect":
            pass

    try:
        async with wait_first(relay(), until_gone()) as (work, _):
            if work.done():
                work.result()
    except OrchgitError as error:
        if began:
            raise ConnectionError(f"the answer ended early: {error}") from error
        await PlainTextResponse(str(error), status_of(error))(scope, receive, send)
