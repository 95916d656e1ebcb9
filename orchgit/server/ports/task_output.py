"""Reads the end of a task's output from its agent; a push that failed shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from orchgit.api.access.enforcement import INTERNAL

_log = structlog.get_logger(component="server")
_TIMEOUT_S = 3.0


class TaskOutput:
    """The `TaskLogs` of gitops: reads through this server's own `/v1/client`, which finds the
    agent.

    `app` gives the application; it exists only after gitops was built.
    """

    def __init__(self, app: Callable[[], ASGIApp]) -> None:
        self._app = app

    async def tail(self, alloc_id: str, task: str, stream: str, max_bytes: int) -> bytes:
        """Returns the last bytes of `stdout` or `stderr`; "" where the agent cannot be asked."""
        app = self._app()

        async def internal(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, INTERNAL: True}, receive, send)

        transport = httpx.ASGITransport(app=internal)
        query: dict[str, str | int] = {
            "task": task,
            "type": stream,
            "origin": "end",
            "offset": max_bytes,
            "plain": "true",
        }
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
            ):
                answer = await client.get(f"/v1/client/fs/logs/{alloc_id}", params=query)
        except (TimeoutError, httpx.HTTPError) as error:
            _log.warning("cannot read a task's output", alloc=alloc_id, task=task, error=str(error))
            return b""
        return answer.content[-max_bytes:] if answer.status_code == 200 else b""
