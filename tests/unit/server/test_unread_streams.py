"""Clients that do not read what they asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from orchgit.server.http.clients import HttpClients
from orchgit.server.http.protocol import UNREAD_S, HttpProtocol


class _Transport(asyncio.Transport):
    """A transport whose buffer the test declares full."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class _Timers:
    """The event loop, whose timers the test fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: list[tuple[float, asyncio.TimerHandle, Callable[[], None]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay_s: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        handle = self._loop.call_later(1e6, work)
        self._pending.append((delay_s, handle, work))
        return handle

    def pass_s(self, seconds: float) -> None:
        for delay_s, handle, work in self._pending:
            if delay_s <= seconds and not handle.cancelled():
                work()


async def _silent(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.parametrize(
    ("path", "reads_again", "ends"),
    [
        ("/v1/event/stream", False, True),
        ("/v1/event/stream?topic=Job", False, True),
        ("/v1/event/stream", True, False),
        ("/v1/client/fs/logs/a", False, False),
    ],
)
def test_event_stream_that_is_not_read_is_ended(path: str, reads_again: bool, ends: bool) -> None:
    async def scenario() -> None:
        timers, transport = _Timers(asyncio.get_running_loop()), _Transport()
        config = Config(_silent, lifespan="off")
        config.load()
        protocol = HttpProtocol(
            clients=HttpClients(10),
            config=config,
            server_state=ServerState(),
            app_state={},
            _loop=cast(asyncio.AbstractEventLoop, timers),
        )
        protocol.connection_made(transport)
        protocol.data_received(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        protocol.pause_writing()
        if reads_again:
            protocol.resume_writing()
        timers.pass_s(UNREAD_S)
        assert transport.is_aborted is ends
        protocol.connection_lost(None)

    asyncio.run(scenario())
