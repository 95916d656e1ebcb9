"""Whole numbers in text from outside: ASCII digits, at most what a 64-bit field holds."""

from __future__ import annotations

from typing import Any

MOST = (1 << 63) - 1
_MOST_DIGITS = 19


def whole_number(text: str) -> int | None:
    """The number; None for any other text, a number beyond 64 bits among them.

    Python's `int` takes digits of any script, underscores and spaces, and refuses more than 4,300
    digits with an error of its own.
    """
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text)
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        return None
    number = sign * int(digits)
    return number if abs(number) <= MOST else None


def too_large_at(tree: Any) -> str | None:
    """Where in a tree of dicts and lists a whole number is beyond 64 bits (`.Count`); else None."""
    if type(tree) is int:
        return None if -MOST <= tree <= MOST else ""
    if isinstance(tree, dict):
        places: Any = ((f".{key}", value) for key, value in tree.items())
    elif isinstance(tree, list):
        places = ((f"[{number}]", value) for number, value in enumerate(tree))
    else:
        return None
    for place, value in places:
        if type(value) in _MAY_HOLD and (found := too_large_at(value)) is not None:
            return f"{place}{found}"
    return None


_MAY_HOLD = (int, dict, list)
