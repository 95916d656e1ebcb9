"""Messages between two processes of one machine, over a pair of connected sockets.

No port, no certificate, no HTTP: a message costs microseconds where a call over gRPC costs hundreds
of them. What is sent within one turn of the event loop leaves as one frame (its length, then a
msgpack array), and arrives as one list.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, cast

import msgspec

logger = logging.getLogger(__name__)

_LENGTH_BYTES = 4
_ENCODER = msgspec.msgpack.Encoder()


class Pipe(asyncio.Protocol):
    """`kind` is what may arrive (a union of tagged structs). `on_lost` is called once, when the
    other side is gone or sends what cannot be read; what is sent after that is dropped."""

    def __init__(
        self, kind: Any, on_messages: Callable[[list[Any]], None], on_lost: Callable[[], None]
    ) -> None:
        self._decoder = msgspec.msgpack.Decoder(list[kind])
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
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

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            while (frame := self._next_frame()) is not None:
                self._on_messages(self._decoder.decode(frame))
        except msgspec.DecodeError:
            logger.exception("cannot read what the other process sends; hanging up")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    # -- inside --------------------------------------------------------------------------------

    def _next_frame(self) -> bytes | None:
        if len(self._received) < _LENGTH_BYTES:
            return None
        end = _LENGTH_BYTES + int.from_bytes(self._received[:_LENGTH_BYTES], "big")
        if len(self._received) < end:
            return None
        frame = bytes(self._received[_LENGTH_BYTES:end])
        del self._received[:end]
        return frame

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            frame = _ENCODER.encode(unsent)
            self._transport.writelines((len(frame).to_bytes(_LENGTH_BYTES, "big"), frame))
