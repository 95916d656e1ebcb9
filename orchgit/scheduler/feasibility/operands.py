"""The operators of constraints and affinities, on resolved values (None: not found)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from orchgit.scheduler.feasibility.versions import satisfies

DISTINCT_HOSTS = "distinct_hosts"
DISTINCT_PROPERTY = "distinct_property"
Compare = Callable[[str, str], bool]


def holds(operand: str, left: str | None, right: str | None) -> bool:
    """Whether `left operand right`; an unknown operator never holds."""
    match operand:
        case "!=" | "not":
            return left != right
        case "is_set":
            return left is not None
        case "is_not_set":
            return left is None
        case "distinct_hosts" | "distinct_property":
            return True
    compare = _COMPARE.get(operand)
    return compare is not None and left is not None and right is not None and compare(left, right)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _ordered(decide: Callable[[float], bool]) -> Compare:
    def compare(left: str, right: str) -> bool:
        left_number, right_number = _number(left), _number(right)
        if left_number is not None and right_number is not None:
            return decide(left_number - right_number)
        return decide((left > right) - (left < right))

    return compare


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text)
    except re.error:
        return None


def _matches(left: str, right: str) -> bool:
    pattern = _pattern(right)
    return pattern is not None and pattern.search(left) is not None


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.split(",")}


_COMPARE: dict[str, Compare] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "is": lambda left, right: left == right,
    "<": _ordered(lambda difference: difference < 0),
    "<=": _ordered(lambda difference: difference <= 0),
    ">": _ordered(lambda difference: difference > 0),
    ">=": _ordered(lambda difference: difference >= 0),
    "version": lambda left, right: satisfies(left, right, strict=False),
    "semver": lambda left, right: satisfies(left, right, strict=True),
    "regexp": _matches,
    "set_contains": lambda left, right: _parts(right) <= _parts(left),
    "set_contains_all": lambda left, right: _parts(right) <= _parts(left),
    "set_contains_any": lambda left, right: bool(_parts(right) & _parts(left)),
}
