"""Streams of a file's bytes: plain, or as Nomad's frames, with a sign of life while following."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from orchgit.clock import Clock

CHUNK_BYTES = 64 * 1024
POLL_S = 0.1
"""How often a followed file is checked: only while a client reads, and one fstat each time."""
_HEARTBEAT_S = 1.0


@dataclass(frozen=True, slots=True)
class Frames:
    """How bytes of `file` are sent."""

    file: str
    plain: bool

    def data(self, data: bytes, end_offset: int) -> bytes:
        if self.plain:
            return data
        frame = {
            "Data": base64.b64encode(data).decode(),
            "File": self.file,
            "Offset": end_offset,
        }
        return msgspec.json.encode(frame)

    def event(self, what: str, offset: int) -> bytes:
        if self.plain:
            return b""
        return msgspec.json.encode({"File": self.file, "FileEvent": what, "Offset": offset})

    def heartbeat(self) -> bytes:
        return b"" if self.plain else b"{}"


class Pulse:
    """Says when a followed stream that has nothing to say must show that it lives."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = clock.monotonic_s()

    def spoke(self) -> None:
        self._last_s = self._clock.monotonic_s()

    def due(self) -> bool:
        if self._clock.monotonic_s() - self._last_s < _HEARTBEAT_S:
            return False
        self.spoke()
        return True


async def follow_file(
    fd: int, offset: int, frames: Frames, follow: bool, clock: Clock
) -> AsyncIterator[bytes]:
    """Yields the file from `offset` on; with `follow`, also what is added until it is deleted."""
    pulse = Pulse(clock)
    try:
        while True:
            while data := os.pread(fd, CHUNK_BYTES, offset):
                offset += len(data)
                yield frames.data(data, offset)
                pulse.spoke()
            status = os.fstat(fd)
            if not follow:
                return
            if status.st_nlink == 0:
                yield frames.event("file deleted", offset)
                return
            if status.st_size < offset:
                offset = 0
                yield frames.event("file truncated", offset)
            if pulse.due() and (sign := frames.heartbeat()):
                yield sign
            await clock.sleep(POLL_S)
    finally:
        os.close(fd)
