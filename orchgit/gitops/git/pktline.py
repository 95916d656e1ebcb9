"""git's pkt-lines (four hexadecimal digits of length, then the data) and the side-bands in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from enum import IntEnum

from orchgit.errors import InvalidInputError, TooLargeError

FLUSH = b"0000"
_MAX_DATA = 65_516
_MAX_BAND_DATA = 65_515


class Band(IntEnum):
    """Channels of a side-band answer: the report, text for people, a fatal error."""

    DATA = 1
    PROGRESS = 2
    ERROR = 3


def pkt(data: bytes) -> bytes:
    """Returns the data as one pkt-line. Raises TooLargeError for more than 65,516 bytes."""
    if len(data) > _MAX_DATA:
        raise TooLargeError(f"cannot put {len(data)} bytes into one pkt-line")
    return b"%04x" % (len(data) + 4) + data


def band(channel: Band, data: bytes) -> Iterator[bytes]:
    """Yields the data as pkt-lines of one band."""
    for at in range(0, len(data), _MAX_BAND_DATA):
        yield pkt(bytes((channel,)) + data[at : at + _MAX_BAND_DATA])


class ByteReader:
    """Reads exact pieces from a stream of chunks.

    Raises InvalidInputError where the stream ends early, and TooLargeError once more than
    `max_bytes` were read; `limit_name` is named in that error.
    """

    def __init__(self, chunks: AsyncIterator[bytes], max_bytes: int, limit_name: str) -> None:
        self._chunks = chunks
        self._buffer = bytearray()
        self._left = max_bytes
        self._limit = f"{limit_name} is {max_bytes} bytes"

    async def _more(self) -> bool:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            return False
        self._buffer += chunk
        return True

    def _take(self, size: int) -> bytes:
        """Returns bytes of the buffer. They count towards the limit when they are handed out; the
        buffer holds at most one chunk more."""
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"cannot receive this push: it is too large, {self._limit}")
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def allow(self, max_bytes: int) -> None:
        """Sets another limit for what is read from now on."""
        self._left = max_bytes

    async def exactly(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        while len(self._buffer) < size:
            if not await self._more():
                raise InvalidInputError("cannot read the push: it ends in the middle")
        return self._take(size)

    async def pkt(self) -> bytes | None:
        """Returns the next pkt-line's data, or None for a flush."""
        head = await self.exactly(4)
        try:
            size = int(head, 16)
        except ValueError as error:
            raise InvalidInputError("cannot read the push: a pkt-line has no length") from error
        if size == 0:
            return None
        if size < 4 or size > _MAX_DATA + 4:
            raise InvalidInputError("cannot read the push: a pkt-line has a wrong length")
        return await self.exactly(size - 4)

    async def pkts(self, limit: int) -> list[bytes]:
        """Returns the pkt-lines up to the next flush; TooLargeError if they are more than
        `limit`."""
        lines: list[bytes] = []
        while (line := await self.pkt()) is not None:
            lines.append(line)
            if len(lines) > limit:
                raise TooLargeError(f"cannot read the push: it has more than {limit} lines")
        return lines

    async def rest(self) -> AsyncIterator[bytes]:
        """Yields what is left of the stream."""
        while True:
            if self._buffer:
                yield self._take(len(self._buffer))
            elif not await self._more():
                return
