"""Whole numbers in text from outside: ASCII digits, at most what a 64-bit field holds."""

from __future__ import annotations

import math
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
    """Where in a tree of dicts and lists a whole number is beyond 64 bits (`.Count`); else None.

    What a driver or a proxy is configured with (`FREE_FORM`) is left out: it holds numbers of any
    size, see `settle_numbers`.
    """
    if type(tree) is int:
        return None if -MOST <= tree <= MOST else ""
    if isinstance(tree, dict):
        places: Any = ((f".{key}", tree[key]) for key in tree if key not in FREE_FORM)
    elif isinstance(tree, list):
        places = ((f"[{number}]", value) for number, value in enumerate(tree))
    else:
        return None
    for place, value in places:
        if type(value) in _MAY_HOLD and (found := too_large_at(value)) is not None:
            return f"{place}{found}"
    return None


def settle_numbers(tree: Any) -> bool:
    """Whether every whole number of a tree has at most 64 bits (`too_large_at` says which has not).

    In its free-form parts, which are changed in place, a larger one becomes a float, as Go's JSON
    reads every number of those. That is how Nomad writes large ones, too.
    """
    is_bounded = True
    if type(tree) is dict:
        for key, value in tree.items():
            if key in FREE_FORM:
                tree[key] = _as_floats(value)
            elif type(value) in _MAY_HOLD and not settle_numbers(value):
                is_bounded = False
    elif type(tree) is list:
        for value in tree:
            if type(value) in _MAY_HOLD and not settle_numbers(value):
                is_bounded = False
    elif type(tree) is int:
        return -MOST <= tree <= MOST
    return is_bounded


def _as_floats(value: Any) -> Any:
    if type(value) is int:
        return value if -MOST <= value <= MOST else _float(value)
    if isinstance(value, dict):
        return {key: _as_floats(each) for key, each in value.items()}
    return [_as_floats(each) for each in value] if isinstance(value, list) else value


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


FREE_FORM = frozenset(("Config", "config"))
_MAY_HOLD = (int, dict, list)
