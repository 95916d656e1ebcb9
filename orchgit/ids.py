"""Identifiers as a parameter: random UUIDs in production, a counted sequence in tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Protocol

_BLOCK = 64
_SERIES_STEP = 0x7FF


class IdSource(Protocol):
    def new(self) -> str: ...

    def series(self) -> Iterator[str]:
        """Ids of things that are made together, as many as are asked for."""
        ...


class RandomIds:
    """Version 4 UUIDs (RFC 9562)."""

    def __init__(self) -> None:
        self._unused: list[bytes] = []

    def new(self) -> str:
        raw = self._raw()
        return _uuid(int.from_bytes(raw[:4]), raw)

    def _raw(self) -> bytes:
        try:
            return self._unused.pop()  # atomic: no two threads get the same
        except IndexError:
            return self._more()

    def _more(self) -> bytes:
        """Many at once: each question to the system gives the interpreter's lock away."""
        block = os.urandom(16 * _BLOCK)
        first, *others = (block[at : at + 16] for at in range(0, len(block), 16))
        self._unused.extend(others)
        return first

    def series(self) -> Iterator[str]:
        """They lie near each other: each begins with a little more than the one before, so that
        an index takes thousands of them on a few pages instead of one page for each. What people
        type, the first eight digits, is as unlikely to be shared as that of random ids."""
        start = int.from_bytes(self._raw()[:4])
        while True:
            raw = self._raw()
            start = (start + 1 + (int.from_bytes(raw[:2]) & _SERIES_STEP)) & 0xFFFFFFFF
            yield _uuid(start, raw)


def _uuid(first: int, raw: bytes) -> str:
    """A version 4 UUID of these first 32 bits and what follows them in `raw`."""
    text = raw.hex()
    variant = "89ab"[raw[8] >> 6]
    return f"{first:08x}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


class SequentialIds:
    """Predictable UUID-shaped ids for tests; the prefix says which source made them."""

    def __init__(self, prefix: str = "00000000") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def new(self) -> str:
        return f"{self._prefix}-0000-4000-8000-{next(self._numbers):012x}"

    def series(self) -> Iterator[str]:
        while True:
            yield self.new()
