"""How messages lie in a connection: frames, large messages in parts that others may pass.

    frame:  2 bits kind, 30 bits length (big-endian) | that many bytes
    kinds:  a whole message (without bytes: only "I am still here") | a part of one | its last part

One large message is under way at a time; whole messages may come between its parts, so that a
heartbeat never waits for a large entry.
"""

from __future__ import annotations

import socket

MAX_MESSAGE_BYTES = 272 << 20
PART_BYTES = 256 << 10
WHOLE, PART, LAST_PART = 0, 1, 2
STILL_HERE = b"\x00\x00\x00\x00"
_LENGTH = (1 << 30) - 1


def write_frame(channel: socket.socket, data: bytes | memoryview, kind: int = WHOLE) -> None:
    channel.sendall((kind << 30 | len(data)).to_bytes(4, "big") + data)


class FrameReader:
    """Memory grows with what has come, not with what was announced."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._parts = bytearray()

    def message(self, limit: int = MAX_MESSAGE_BYTES) -> bytes:
        """The next one; ValueError for what no member sends, ConnectionError at the end."""
        while True:
            kind, data = self._frame(limit)
            if kind == WHOLE and data:
                return data
            self._parts += data
            if len(self._parts) > limit:
                raise ValueError(f"a message of more than {limit} bytes")
            if kind == LAST_PART:
                whole, self._parts = bytes(self._parts), bytearray()
                return whole

    def _frame(self, limit: int) -> tuple[int, bytes]:
        head = int.from_bytes(self._read(4), "big")
        kind, length = head >> 30, head & _LENGTH
        if kind > LAST_PART or length > limit or (kind != WHOLE and length > PART_BYTES):
            raise ValueError(f"a frame of kind {kind} with {length} bytes")
        return kind, self._read(length)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._channel.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("closed by the other side")
            data += part
        return bytes(data)
