"""Identifiers as a parameter: random UUIDs in production, a counted sequence in tests."""

from __future__ import annotations

import itertools
import os
from typing import Protocol


class IdSource(Protocol):
    def new(self) -> str: ...


class RandomIds:
    """Version 4 UUIDs (RFC 9562)."""

    def new(self) -> str:
        raw = bytearray(os.urandom(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class SequentialIds:
    """Predictable UUID-shaped ids for tests; the prefix says which source made them."""

    def __init__(self, prefix: str = "00000000") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def new(self) -> str:
        return f"{self._prefix}-0000-4000-8000-{next(self._numbers):012x}"
