"""Messages between two processes of one machine, over a pair of connected sockets.

No port, no certificate, no HTTP: a message costs microseconds where a call over gRPC costs hundreds
of them. What is sent within one turn of the event loop leaves as one frame (its length, then a
msgpack array), and arrives as one list.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import msgspec
import structlog

from orchgit.length_frames import HEADER_BYTES, FrameError, frame_end, frame_header

_log = structlog.get_logger(component="rpc")

MAX_FRAME_BYTES = 1 << 30
"""Many messages may travel in one frame."""
_FIRST_BUFFER_BYTES = 1 << 16
_ENCODER = msgspec.msgpack.Encoder()


class Pipe(asyncio.BufferedProtocol):
    """`kind` is what may arrive (a union of tagged structs). `on_lost` is called once, when the
    other side is gone or sends what cannot be read; what is sent after that is dropped."""

    def __init__(
        self, kind: Any, on_messages: Callable[[list[Any]], None], on_lost: Callable[[], None]
    ) -> None:
        self._decoder = msgspec.msgpack.Decoder(list[kind])
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        # Its own: asyncio would map and unmap a quarter of a megabyte for each message.
        self._received = memoryview(bytearray(_FIRST_BUFFER_BYTES))
        self._end = 0
        """How many bytes of it are filled."""
        self._unsent: list[Any] = []

    @classmethod
    async def over(
        cls,
        end: socket.socket,
        kind: Any,
        on_messages: Callable[[list[Any]], None],
        on_lost: Callable[[], None],
    ) -> Pipe:
        """A pipe over one end of a socket pair, which it owns from then on."""
        end.setblocking(False)
        loop = asyncio.get_running_loop()
        _, pipe = await loop.create_connection(lambda: cls(kind, on_messages, on_lost), sock=end)
        return pipe

    def send(self, message: Any) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def close(self) -> None:
        """Send what is waiting, then hang up."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    # -- what asyncio calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._end == len(self._received):
            larger = memoryview(bytearray(2 * self._end))
            larger[: self._end] = self._received
            self._received = larger
        return self._received[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        try:
            for frame in self._whole_frames():
                self._on_messages(self._decoder.decode(frame))
        except (msgspec.DecodeError, FrameError):
            _log.exception("cannot read what the other process sends; closing the connection")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    # -- inside --------------------------------------------------------------------------------

    def _whole_frames(self) -> list[bytes]:
        """What has arrived whole; the rest moves to the front."""
        frames: list[bytes] = []
        received, start = self._received, 0
        while end := frame_end(received, start, self._end, MAX_FRAME_BYTES):
            frames.append(bytes(received[start + HEADER_BYTES : end]))
            start = end
        self._end -= start
        if self._end:
            received[: self._end] = received[start : start + self._end]
        elif len(received) > _FIRST_BUFFER_BYTES:
            self._received = memoryview(bytearray(_FIRST_BUFFER_BYTES))
        return frames

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            body = _ENCODER.encode(unsent)
            self._transport.writelines((frame_header(len(body), MAX_FRAME_BYTES), body))
