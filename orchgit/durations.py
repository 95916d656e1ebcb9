"""Durations in Go's notation ("1h30m", "-5s", "1.5h"): text to nanoseconds and back."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from orchgit.errors import InvalidInputError

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_MAX_NS = (1 << 63) - 1


class DurationError(InvalidInputError):
    """The text is not a duration; the message says why, in the words of Go's library."""


@lru_cache(1024)
def parse_ns(text: str) -> int:
    """Nanoseconds of "1h30m"; raises DurationError."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return 0
    if not body:
        raise DurationError(f'invalid duration "{text}"')
    total, at = 0, 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None or not (part[1] or part[2]):
            raise DurationError(f'invalid duration "{text}"')
        if not part[3]:
            raise DurationError(f'missing unit in duration "{text}"')
        unit_ns = _UNITS_NS.get(part[3])
        if unit_ns is None:
            raise DurationError(f'unknown unit "{part[3]}" in duration "{text}"')
        # Each part is cut to whole nanoseconds by itself, as Go cuts it.
        total += int(Fraction(f"{part[1] or 0}.{part[2] or 0}") * unit_ns)
        at = part.end()
    if total > _MAX_NS + (text[0] == "-"):
        raise DurationError(f'invalid duration "{text}"')
    return -total if text[0] == "-" else total


def parse_length_ns(text: str) -> int:
    """Like `parse_ns` for a length of time, which is never negative."""
    try:
        value_ns = parse_ns(text)
    except DurationError:
        value_ns = -1
    if value_ns < 0:
        raise InvalidInputError(f"cannot read {text!r} as a duration; write it like 30s or 1h30m")
    return value_ns


def parse_setting_ns(name: str, text: str) -> int:
    """Like `parse_ns`; raises InvalidInputError that names the setting."""
    try:
        return parse_ns(text)
    except DurationError as error:
        raise InvalidInputError(f"cannot use {name}: {error}") from error


@lru_cache(1024)
def to_text(value_ns: int) -> str:
    """Nanoseconds as Go prints them: 1h30m0s, 1.5s, 300ms, 0s."""
    if value_ns == 0:
        return "0s"
    sign, rest = ("-", -value_ns) if value_ns < 0 else ("", value_ns)
    for unit, scale in (("ns", 1), ("\u00b5s", 1_000), ("ms", 1_000_000)):
        if rest < scale * 1000:
            return f"{sign}{_decimal(rest, scale)}{unit}"
    minutes, rest = divmod(rest, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(value: int, scale: int) -> str:
    whole, fraction = divmod(value, scale)
    if not fraction:
        return str(whole)
    return f"{whole}.{str(fraction).rjust(len(str(scale)) - 1, '0').rstrip('0')}"
