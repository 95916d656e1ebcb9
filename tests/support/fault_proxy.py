"""A link with faults, in user space: TCP connections of one host to another pass through it.

Each way of a link has its own faults. A stream cannot lose bytes in its middle, so what a lossy
network does to TCP is done here to the stream: chunks come late by a retransmission's time, and
sometimes the connection is reset. A way that is blocked holds what it is given, as the sender's
kernel would, until it is open again or the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tests.support.pacing import pause

_CHUNK = 256 << 10
_MAX_HELD = 4 << 20
_CONNECT_S = 5.0
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Faults:
    """One way of a link. Times in seconds, chances per chunk of at most 256 KB."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    """The chance that a chunk has to be sent again: it comes `resend_s` later."""
    resend_s: float = 0.2
    reset: float = 0.0
    """The chance that the connection is reset."""
    bytes_per_s: float = 0.0
    """0: no limit."""
    blocked: bool = False
    cut_after_bytes: int = 0
    """The connection is reset once it carried so many bytes; 0: never."""


CLEAN = Faults()


class Way:
    """From one host to another; changed while connections are open."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._open = asyncio.Event()
        self.set(CLEAN)

    def set(self, faults: Faults) -> None:
        self.faults = faults
        self._open.clear() if faults.blocked else self._open.set()

    async def opened(self) -> None:
        await self._open.wait()

    @property
    def resets(self) -> bool:
        return self.faults.reset > 0 and self._chance.random() < self.faults.reset

    def late_s(self) -> float:
        """By how much the next chunk is late."""
        faults = self.faults
        late_s = faults.delay_s + self._chance.uniform(0, faults.jitter_s)
        if faults.loss and self._chance.random() < faults.loss:
            late_s += faults.resend_s
        return late_s


class Link:
    """Connections that one host makes to another; `there` is the way of what it sends."""

    def __init__(self, chance: random.Random) -> None:
        self.there, self.back = Way(chance), Way(chance)
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Task[None]] = []
        self._listeners: list[socket.socket] = []
        self._cut = False

    def listen(
        self, listener: socket.socket, target: tuple[str, int], dial: Callable[[], socket.socket]
    ) -> None:
        """Pass what comes to `listener` on to `target`, over sockets that `dial` makes."""
        listener.listen(128)
        self._listeners.append(listener)
        self._servers.append(asyncio.create_task(self._accept(listener, target, dial)))

    def cut(self) -> None:
        """Reset every connection, and every new one."""
        self._cut = True
        for pair in list(self._pairs):
            _reset(*pair)

    def mend(self) -> None:
        """As if nothing had been."""
        self._cut = False
        self.there.set(CLEAN)
        self.back.set(CLEAN)

    async def close(self) -> None:
        tasks = [*self._servers, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def _accept(
        self,
        listener: socket.socket,
        target: tuple[str, int],
        dial: Callable[[], socket.socket],
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(listener)
            if self._cut:
                _reset(near)
                near.close()
                continue
            task = asyncio.create_task(self._connect(near, target, dial()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(
        self, near: socket.socket, target: tuple[str, int], far: socket.socket
    ) -> None:
        pair = near, far
        self._pairs.add(pair)
        try:
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self.there.opened()
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.get_running_loop().sock_connect(far, target)
            await self._carry(near, far)
        except (OSError, TimeoutError):
            pass
        finally:
            self._pairs.discard(pair)
            _reset(*pair)
            near.close()
            far.close()

    async def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Until both sides are done, or one of them fails."""
        ways = _Stream(near, far, self.there), _Stream(far, near, self.back)
        await _all(*(work for way in ways for work in (way.read(), way.write())))


async def _all(*work: Coroutine[Any, Any, None]) -> None:
    """Until all are done; when one fails, the others are ended."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Stream:
    """One way of one connection."""

    def __init__(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        self._source, self._sink, self._way = source, sink, way
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._changed = asyncio.Event()
        self._due_s = 0.0
        self._carried_bytes = 0

    async def read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(self._source, _CHUNK)
            if self._way.resets:
                raise ConnectionResetError("a fault")
            # TCP keeps the order: nothing overtakes a chunk that is late.
            self._due_s = max(self._due_s, loop.time() + self._way.late_s())
            self._held.append((self._due_s, data))
            self._held_bytes += len(data)
            self._changed.set()
            if not data:
                return
            while self._held_bytes > _MAX_HELD:
                self._changed.clear()
                await self._changed.wait()

    async def write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._held:
                self._changed.clear()
                await self._changed.wait()
            due_s, data = self._held.popleft()
            if (wait_s := due_s - loop.time()) > 0:
                await pause(wait_s, "the fault delays the chunk")
            await self._way.opened()
            if not data:
                with contextlib.suppress(OSError):
                    self._sink.shutdown(socket.SHUT_WR)
                return
            if self._way.faults.bytes_per_s:
                await pause(len(data) / self._way.faults.bytes_per_s, "the way is slow")
            self._carried_bytes += len(data)
            cut_after = self._way.faults.cut_after_bytes
            if cut_after and self._carried_bytes > cut_after:
                raise ConnectionResetError("a fault")
            await loop.sock_sendall(self._sink, data)
            self._held_bytes -= len(data)
            self._changed.set()


def _reset(*sockets: socket.socket) -> None:
    """The other sides get RST, as from a host that knows nothing of the connection."""
    for one in sockets:
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            one.shutdown(socket.SHUT_RDWR)
