"""Reads sizes of a configuration file as Nomad does: `512MiB`, `1,024`, `10G`, `1.5 gib`."""

from __future__ import annotations

import re

from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_float

_NUMBER = re.compile(r"[0-9.,]*")
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}{b}": 1000**power for power, letter in enumerate("kmgtpe", 1) for b in ("", "b")},
    **{f"{letter}i{b}": 1024**power for power, letter in enumerate("kmgtpe", 1) for b in ("", "b")},
}


class SizeError(InvalidInputError):
    """The text is no size; the message says why, in the words of Nomad's library."""


def bytes_of(text: str) -> int:
    """Raises SizeError."""
    stripped = text.strip()
    found = _NUMBER.match(stripped)
    end = found.end() if found else 0
    unit = stripped[end:].strip().lower()
    try:
        number = parse_float(stripped[:end].replace(",", ""))
    except InvalidInputError as error:
        raise SizeError(str(error)) from None
    if unit not in _UNITS:
        raise SizeError(f"unhandled size name: {unit}")
    size = number * _UNITS[unit]
    if size >= 1 << 64:
        raise SizeError(f"too large: {text}")
    return int(size)


def parse_bytes(name: str, text: str) -> int:
    """Returns the bytes that a size means. Raises InvalidInputError naming the setting `name`."""
    try:
        return bytes_of(text)
    except SizeError as error:
        raise InvalidInputError(
            f'cannot use {name}: "{text}" is no size; write a number and a unit, as "512MiB"'
        ) from error
