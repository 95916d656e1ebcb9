"""Reads the frames of a file that a server streams: JSON objects one after the other."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_MAX_FRAME_CHARS = 16 << 20


@dataclass(frozen=True, slots=True)
class FileFrame:
    """Bytes of a file, or what became of it."""

    file: str
    end_offset: int
    """Where in the file the bytes end."""
    data: bytes

    @classmethod
    def read_from(cls, frame: dict[str, Any]) -> FileFrame:
        data = base64.b64decode(frame.get("Data") or "")
        return cls(str(frame.get("File") or ""), int(frame.get("Offset") or 0), data)

    @property
    def start_offset(self) -> int:
        return self.end_offset - len(self.data)

    @property
    def file_number(self) -> int:
        """The number at the end of the name of a log's file, or 0."""
        tail = self.file.rpartition(".")[2]
        return int(tail) if tail.isdecimal() else 0


def file_frames(texts: Iterable[str]) -> Iterator[FileFrame]:
    """Yields the frames, except signs of life. Raises ValueError for anything that is no frame."""
    decoder = json.JSONDecoder()
    rest = ""
    for text in texts:
        rest = (rest + text).lstrip()
        while rest:
            try:
                frame, end = decoder.raw_decode(rest)
            except ValueError:
                if len(rest) > _MAX_FRAME_CHARS or not rest.startswith("{"):
                    raise
                break
            rest = rest[end:].lstrip()
            if frame:
                yield FileFrame.read_from(frame)


def file_data(texts: Iterable[str]) -> Iterator[bytes]:
    """Yields the data of each frame. Raises ValueError for anything that is no frame."""
    for frame in file_frames(texts):
        if frame.data:
            yield frame.data
