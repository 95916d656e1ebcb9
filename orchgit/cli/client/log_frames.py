"""Reads the frames of a file that a server streams: JSON objects one after the other."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator

_MAX_FRAME_CHARS = 16 << 20


def file_data(texts: Iterable[str]) -> Iterator[bytes]:
    """Yields the data of each frame. Raises ValueError for anything that is no frame."""
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
            if data := frame.get("Data"):
                yield base64.b64decode(data)
