"""Reads the last lines of files and logs of allocations, and follows them over servers and agents
that die: each byte comes once."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.client.log_frames import FileFrame, file_frames
from orchgit.cli.client.patient_reads import Patience

_SILENCE_S = 60.0
"""Agents show each second that a stream lives."""
_BACK_BYTES = (1 << 16, 1 << 22)
"""From how far before its end a log is read again; from its start where that is too little."""
_BYTES_PER_LINE = 200
"""How long a line is taken to be, where the last lines of a file are asked for by bytes."""
_MORE = 16
_LONGEST_TAIL_BYTES = 16 << 20


def last_lines(read_end: Callable[[int], bytes], count: int) -> bytes:
    """Returns the last `count` lines, whole; `read_end` returns so many bytes of the end.

    Asks for more where lines are long; of what has no line ends in 16 MiB, returns those.
    """
    size = count * _BYTES_PER_LINE
    while count > 0:
        data = read_end(size)
        lines = io.BytesIO(data).readlines()
        # The first of the lines may lack its beginning, unless the whole file came.
        if len(lines) > count or len(data) < size or size >= _LONGEST_TAIL_BYTES:
            return b"".join(lines[-count:])
        size = min(size * _MORE, _LONGEST_TAIL_BYTES)
    return b""


@dataclass(slots=True)
class FollowedLog:
    """One log of a task. `query` says where to begin; reading goes on where it was broken off."""

    client: ApiClient
    path: str
    query: dict[str, Any]
    patience: Patience
    lines: int | None = None
    """Begin with so many lines of the end."""
    _seen: tuple[int, int] | None = None
    """The number of the log's file that was read last, and how far."""

    def data(self) -> Iterator[bytes]:
        """Raises ApiError."""
        return self.patience.stream(self._open)

    def _open(self, opened: Callable[[], None]) -> Iterator[bytes]:
        if self.lines is not None:
            tail = _Tail(self.client, self.path, self.query)
            yield tail.lines(self.lines)
            self._seen, self.lines = tail.seen, None
            self.query = {**self.query, "origin": "start", "offset": "0"}
        seen = self._seen
        if seen is None:
            yield from self._told(_frames(self.client, self.path, self.query, opened))
            return
        for size in _BACK_BYTES:
            query = {**self.query, "origin": "end", "offset": str(size)}
            frames = _frames(self.client, self.path, query, opened)
            first = next(frames, None)
            if first is None:
                return
            if (first.file_number, first.start_offset) <= seen:
                yield from self._told(_after(seen, chain((first,), frames)))
                return
        query = {**self.query, "origin": "start", "offset": "0"}
        frames = _frames(self.client, self.path, query, opened)
        yield from self._told(_after(seen, frames))

    def _told(self, frames: Iterator[FileFrame]) -> Iterator[bytes]:
        for frame in frames:
            self._seen = (frame.file_number, frame.end_offset)
            if frame.data:
                yield frame.data


@dataclass(slots=True)
class FollowedFile:
    """One file of an allocation, followed as it grows."""

    client: ApiClient
    path: str
    query: dict[str, Any]
    patience: Patience
    lines: int | None = None
    """Begin with so many lines of the end."""

    def data(self) -> Iterator[bytes]:
        """Raises ApiError."""
        return self.patience.stream(self._open)

    def _open(self, opened: Callable[[], None]) -> Iterator[bytes]:
        if self.lines is not None:
            tail = _Tail(self.client, self.path, self.query)
            yield tail.lines(self.lines)
            offset = tail.seen[1] if tail.seen else 0
            self.query = {**self.query, "origin": "start", "offset": str(offset)}
            self.lines = None
        for frame in _frames(self.client, self.path, self.query, opened):
            self.query = {**self.query, "origin": "start", "offset": str(frame.end_offset)}
            if frame.data:
                yield frame.data


@dataclass(slots=True)
class _Tail:
    """Reads the end of a file or log as it is now, and notes where that is."""

    client: ApiClient
    path: str
    query: dict[str, Any]
    seen: tuple[int, int] | None = None
    """The number of the file and where it ends; None where there is nothing yet."""

    def lines(self, count: int) -> bytes:
        if count == 0:
            self._read(1)
        return last_lines(self._read, count)

    def _read(self, size_bytes: int) -> bytes:
        query = {**self.query, "follow": "false", "origin": "end", "offset": str(size_bytes)}
        frames = list(_frames(self.client, self.path, query, lambda: None))
        if frames:
            self.seen = (frames[-1].file_number, frames[-1].end_offset)
        return b"".join(frame.data for frame in frames)


def _after(seen: tuple[int, int], frames: Iterator[FileFrame]) -> Iterator[FileFrame]:
    """Yields the frames, or parts of them, behind a place in the files of a log."""
    number, offset = seen
    for frame in frames:
        if frame.file_number == number and frame.start_offset < offset < frame.end_offset:
            rest = frame.data[offset - frame.start_offset :]
            yield FileFrame(frame.file, frame.end_offset, rest)
        elif (frame.file_number, frame.end_offset) > seen:
            yield frame


def _frames(
    client: ApiClient, path: str, query: dict[str, Any], opened: Callable[[], None]
) -> Iterator[FileFrame]:
    try:
        texts = client.stream_text(path, opened=opened, silence_s=_SILENCE_S, **query)
        yield from file_frames(texts)
    except (ValueError, TypeError, AttributeError) as error:
        raise client.unexpected(error) from error
