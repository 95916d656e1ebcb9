"""Go's duration strings, as driver configs have them."""

from __future__ import annotations

import re

from orchgit.errors import DriverError

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def duration_s(text: str) -> float:
    """`1h30m`, `250ms`, `0` in seconds; DriverError for anything else."""
    if text in ("0", ""):
        return 0.0
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        raise DriverError(f'cannot read "{text}" as a duration: write for example "1m30s"')
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
