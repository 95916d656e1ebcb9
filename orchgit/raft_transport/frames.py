"""How messages lie in a connection: frames, large messages in parts that others may pass.

    frame:  2 bits kind, 30 bits length (big-endian) | that many bytes
    kinds:  a whole message (without bytes: a sign of life) | a part of one | its last part

One large message is under way at a time; whole messages may come between its parts, so that a
heartbeat never waits for a large entry.
"""

from __future__ import annotations

MAX_MESSAGE_BYTES = 272 << 20
PART_BYTES = 256 << 10
WHOLE, PART, LAST_PART = 0, 1, 2
STILL_HERE = b"\x00\x00\x00\x00"
_HEAD_BYTES = 4
_LENGTH = (1 << 30) - 1


def frame(data: bytes | memoryview, kind: int = WHOLE) -> bytes:
    """At most PART_BYTES of data."""
    return (kind << 30 | len(data)).to_bytes(_HEAD_BYTES, "big") + data


class FrameParser:
    """Messages out of what comes. Memory grows with what has come, not with what was announced."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Of a message's bytes; may be changed between two messages."""
        self._data = bytearray()
        self._parts = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        self._data += data

    def message(self) -> bytes | None:
        """The next one that came whole, if any; ValueError for what no member sends."""
        while (read := self._frame()) is not None:
            kind, data = read
            if kind == WHOLE and data:
                return data
            self._parts += data
            if len(self._parts) > self.limit:
                raise ValueError(f"a message of more than {self.limit} bytes")
            if kind == LAST_PART:
                whole, self._parts = bytes(self._parts), bytearray()
                return whole
        return None

    def _frame(self) -> tuple[int, bytes] | None:
        if len(self._data) < _HEAD_BYTES:
            return None
        head = int.from_bytes(self._data[:_HEAD_BYTES], "big")
        kind, length = head >> 30, head & _LENGTH
        if kind > LAST_PART or length > min(self.limit, PART_BYTES):
            raise ValueError(f"a frame of kind {kind} with {length} bytes")
        end = _HEAD_BYTES + length
        if len(self._data) < end:
            return None
        data = bytes(self._data[_HEAD_BYTES:end])
        del self._data[:end]
        return kind, data
