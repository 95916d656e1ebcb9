"""An answer that a thread writes, as a stream of its parts."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import IO

_CHUNK_BYTES = 1 << 18


async def piped(write: Callable[[IO[bytes]], None]) -> AsyncIterator[bytes]:
    """Yields what `write` writes. Where the reader leaves, `write` gets a BrokenPipeError; an error
    of `write` is raised when what it wrote before has been read."""
    reading, writing = os.pipe()

    def run() -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as out:
            write(out)

    work = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        while data := await asyncio.to_thread(os.read, reading, _CHUNK_BYTES):
            yield data
        await work
    finally:
        os.close(reading)
        await asyncio.wait((work,))
