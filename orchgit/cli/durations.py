"""Durations as people write them on the command line: `90s`, `1h30m`."""

from __future__ import annotations

import re

import click

_UNITS_NS = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def parse_duration_ns(text: str) -> int:
    """`1h30m` in nanoseconds; raises click.BadParameter with an example otherwise."""
    if not text or _PART.sub("", text):
        raise click.BadParameter(f"cannot read {text!r} as a duration; write it like 30s or 1h30m")
    return sum(round(float(number) * _UNITS_NS[unit]) for number, unit in _PART.findall(text))
