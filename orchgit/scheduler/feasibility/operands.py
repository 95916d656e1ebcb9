"""The operators of constraints and affinities, applied to resolved values (None: not found)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from orchgit.regex import PatternError, compile_pattern
from orchgit.version_constraints import satisfies

DISTINCT_HOSTS = "distinct_hosts"
DISTINCT_PROPERTY = "distinct_property"
TRUE_WORDS = ("1", "t", "T", "true", "True", "TRUE")
Compare = Callable[[str, str], bool]
_MAX_SEARCH_STEPS = 2_000_000
"""The limit for the search in one node's value, about 10 ms at most."""


def holds(operand: str, left: str | None, right: str | None) -> bool:
    """Returns whether `left operand right` holds; an unknown operator never holds."""
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


_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)


def _ordered(decide: Callable[[Any, Any], bool]) -> Compare:
    """Returns a comparison of two values as whole numbers, else as numbers, else as text."""

    def compare(left: str, right: str) -> bool:
        if _INTEGER.fullmatch(left) and _INTEGER.fullmatch(right):
            return decide(int(left), int(right))
        if _FLOAT.fullmatch(left) and _FLOAT.fullmatch(right):
            return decide(float(left), float(right))
        return decide(left, right)

    return compare


def _matches(left: str, right: str) -> bool:
    try:
        return compile_pattern(right).search(left, _MAX_SEARCH_STEPS)
    except PatternError:
        return False


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.split(",")}


_COMPARE: dict[str, Compare] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "is": lambda left, right: left == right,
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "version": lambda left, right: satisfies(left, right, strict=False),
    "semver": lambda left, right: satisfies(left, right, strict=True),
    "regexp": _matches,
    "set_contains": lambda left, right: _parts(right) <= _parts(left),
    "set_contains_all": lambda left, right: _parts(right) <= _parts(left),
    "set_contains_any": lambda left, right: bool(_parts(right) & _parts(left)),
}
