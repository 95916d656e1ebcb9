"""Reads sizes of a configuration file, such as "512MiB"."""

from __future__ import annotations

import re

from orchgit.errors import InvalidInputError

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*(|B|[KMGT]I?B)$", re.IGNORECASE)
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


def parse_bytes(name: str, text: str) -> int:
    """Returns the bytes that a size means. Raises InvalidInputError naming the setting `name`."""
    match = _SIZE.match(text.strip())
    if match is None:
        raise InvalidInputError(
            f'cannot use {name}: "{text}" is no size; write a number and a unit, as "512MiB"'
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])
