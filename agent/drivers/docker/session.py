"""`alloc exec` in a container: a raw connection to the engine, read on a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Engine

_READ_BYTES = 65536
_HEADER_BYTES = 8
_STDERR = 2
_POLL_S = 0.02


class DockerSession:
    """An `ExecSession` over a connection that the engine has handed over."""

    def __init__(self, engine: Engine, exec_id: str, connection: Any, tty: bool) -> None:
        self._engine = engine
        self._exec_id = exec_id
        self._socket: socket.socket = connection
        self._socket.settimeout(None)
        self._tty = tty
        self._loop = asyncio.get_running_loop()
        self._output: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._ended = False
        self._thread = threading.Thread(target=self._receive, name="docker exec", daemon=True)
        self._thread.start()

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(self._socket.sendall, data)

    async def close_stdin(self) -> None:
        if self._tty:
            await self.write(b"\x04")
        else:
            self._socket.shutdown(socket.SHUT_WR)

    async def read(self) -> tuple[str, bytes]:
        if self._ended and self._output.empty():
            return "stdout", b""
        name, data = await self._output.get()
        self._ended = self._ended or not data
        return name, data

    def resize(self, rows: int, columns: int) -> None:
        if self._tty:
            self._engine.exec_resize(self._exec_id, rows, columns)

    async def wait(self) -> int:
        """The connection ends a moment before the engine knows the exit code."""
        await asyncio.to_thread(self._thread.join)
        while True:
            running, code, _ = await asyncio.to_thread(self._engine.exec_status, self._exec_id)
            if not running:
                return code
            await asyncio.sleep(_POLL_S)

    async def close(self) -> None:
        """Closing the connection hangs up on the command; the engine offers no other end."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            self._ended = True  # the other end was first
        self._socket.close()

    # -- on the thread -------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            while piece := self._piece():
                self._deliver(*piece)
        except OSError:
            self._deliver("stdout", b"")
        else:
            self._deliver("stdout", b"")

    def _piece(self) -> tuple[str, bytes] | None:
        if self._tty:
            data = self._socket.recv(_READ_BYTES)
            return ("stdout", data) if data else None
        header = self._exactly(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            return None
        data = self._exactly(int.from_bytes(header[4:], "big"))
        return ("stderr" if header[0] == _STDERR else "stdout"), data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := self._socket.recv(size - len(data))):
            data += more
        return data

    def _deliver(self, stream: str, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._output.put_nowait, (stream, data))
