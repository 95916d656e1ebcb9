"""How sprig turns any value into a text or a number, and what it calls empty."""

from __future__ import annotations

import re
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_float
from orchgit.go_templates.printing import formatted
from orchgit.go_templates.values import INVALID, GoStruct, kind_of


def to_text(value: Any) -> str:
    return value if isinstance(value, str) else formatted(value)


def to_texts(value: Any) -> list[str]:
    """The elements as texts, without nil; a single value is one element."""
    if isinstance(value, list):
        return [to_text(each) for each in value if each is not None]
    return [] if value is None or value is INVALID else [to_text(value)]


_NIL = "runtime error: invalid memory address or nil pointer dereference"
_INT64 = 1 << 63
_INTEGER = re.compile(
    r"([+-]?)(?:(0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|0|[1-9](?:_?[0-9])*)"
    r"|0_?([0-7](?:_?[0-7])*))(?:\.0+)?"
)


def to_int(value: Any) -> int:
    """Returns the number in 64 bits; 0 for what is no number, and for a text that is out of their
    range."""
    if isinstance(value, str):
        match = _INTEGER.fullmatch(value)
        if match is None:
            return 0
        number = int(match[2], 0) if match[2] else int(match[3], 8)
        number = -number if match[1] == "-" else number
        return number if -_INT64 <= number < _INT64 else 0
    if isinstance(value, float):
        return int(value) if -_INT64 <= value < _INT64 else -_INT64
    return int(value) if isinstance(value, int) else 0


def to_float(value: Any) -> float:
    """Returns 0 for what is no number."""
    if isinstance(value, str):
        try:
            return parse_float(value)
        except InvalidInputError:
            return 0.0
    return float(value) if isinstance(value, int | float) else 0.0


def is_empty(value: Any) -> bool:
    """Structs never are."""
    if value is None or value is INVALID:
        return True
    return not isinstance(value, GoStruct) and not callable(value) and not value


def items_of(value: Any, doing: str) -> list[Any]:
    """Returns the elements of a list. Raises InvalidInputError for another type, in words such as
    "Cannot find first on type map"."""
    if not isinstance(value, list):
        if value is None or value is INVALID:
            raise InvalidInputError(_NIL)
        raise InvalidInputError(f"{doing} type {kind_of(value)}")
    return list(value)
