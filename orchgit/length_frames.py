"""Messages in a stream of bytes. Each is one frame: its length (4 bytes, big-endian), its body.

Imports nothing, since small processes read and write frames too. Every reader is given the most
bytes that a body may have, and raises FrameError for a longer one before it reads the body.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import StreamReader
    from typing import BinaryIO

HEADER_BYTES = 4


class FrameError(ValueError):
    """A frame is longer than its reader or writer allows."""


def frame(body: bytes, max_bytes: int = 0xFFFFFFFF) -> bytes:
    return frame_header(len(body), max_bytes) + body


def frame_header(size: int, max_bytes: int) -> bytes:
    """What comes before a body of `size` bytes."""
    _check(size, max_bytes)
    return size.to_bytes(HEADER_BYTES, "big")


def frame_end(data: bytes | bytearray | memoryview, start: int, end: int, max_bytes: int) -> int:
    """Where the frame at `start` ends, if it is whole in `data[:end]`; 0 if it is not."""
    if end < start + HEADER_BYTES:
        return 0
    size = int.from_bytes(data[start : start + HEADER_BYTES], "big")
    _check(size, max_bytes)
    whole = start + HEADER_BYTES + size
    return whole if whole <= end else 0


def take_frames(buffer: bytearray, max_bytes: int) -> list[bytes]:
    """The bodies of all whole frames at the front of `buffer`, which are removed from it."""
    bodies = []
    start = 0
    while end := frame_end(buffer, start, len(buffer), max_bytes):
        bodies.append(bytes(memoryview(buffer)[start + HEADER_BYTES : end]))
        start = end
    del buffer[:start]
    return bodies


def take_frame(buffer: bytearray, max_bytes: int) -> bytes | None:
    """The body of the first frame in `buffer`, removed from it; None while it is not whole."""
    end = frame_end(buffer, 0, len(buffer), max_bytes)
    if not end:
        return None
    body = bytes(memoryview(buffer)[HEADER_BYTES:end])
    del buffer[:end]
    return body


def read_frame(stream: BinaryIO, max_bytes: int = 0xFFFFFFFF) -> bytes:
    """The body of the next frame; blocks. Raises EOFError when the stream ends before it does."""
    size = int.from_bytes(_read_exactly(stream, HEADER_BYTES), "big")
    _check(size, max_bytes)
    return _read_exactly(stream, size)


async def receive_frame(reader: StreamReader, max_bytes: int) -> bytes:
    """The body of the next frame. Raises EOFError (asyncio.IncompleteReadError) when the stream
    ends before it does."""
    size = int.from_bytes(await reader.readexactly(HEADER_BYTES), "big")
    _check(size, max_bytes)
    return await reader.readexactly(size)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _check(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise FrameError(f"cannot use a frame of {size} bytes: the limit is {max_bytes}")
