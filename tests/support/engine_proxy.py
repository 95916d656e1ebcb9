"""A way to a Docker engine that can be cut: to the agent the engine is dead, its containers run on.

`cut_at` cuts it in the worst moment: when the engine has got a request, before it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

_PIECE = 65536


class EngineProxy:
    def __init__(self, engine: str, path: Path) -> None:
        self._engine = engine.removeprefix("unix://")
        self._path = path
        self.endpoint = f"unix://{path}"
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._copying: set[asyncio.Task[None]] = set()
        self._cut_at = b""
        self._is_mute = False
        self.is_cut = asyncio.Event()

    async def open(self) -> None:
        self._path.unlink(missing_ok=True)
        self.is_cut.clear()
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    def cut_at(self, text: bytes) -> None:
        """Cut when a request with this text has been passed on."""
        self._cut_at = text

    def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        self._path.unlink(missing_ok=True)
        for connection in self._connections:
            connection.transport.abort()
        self._connections.clear()
        self._cut_at, self._is_mute = b"", False
        self.is_cut.set()

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._copying, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_unix_connection(self._engine)
        self._connections |= {writer, there}
        for source, target, watched in ((reader, there, True), (there_reader, writer, False)):
            copying = asyncio.create_task(self._copy(source, target, watched))
            self._copying.add(copying)
            copying.add_done_callback(self._copying.discard)

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, watched: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(_PIECE):
                is_last = watched and self._cut_at and self._cut_at in data
                self._is_mute = self._is_mute or bool(is_last)
                if watched or not self._is_mute:
                    target.write(data)
                    await target.drain()
                elif self._is_mute:
                    self.cut()  # the engine has done what it was asked
            target.close()
