"""Cron specifications as Nomad reads them: five fields, a year as sixth, seconds before seven."""

from __future__ import annotations

import re

from orchgit.whole_number import whole_number

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MACROS = ("@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("second", 0, 59, ()),
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day-of-month", 1, 31, ()),
    ("month", 1, 12, tuple(_MONTHS)),
    ("day-of-week", 0, 7, tuple(_DAYS)),
    ("year", 1970, 2099, ()),
)
_RANGE = re.compile(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?")
_DAY_OF_MONTH = re.compile(r"L(?:-\d{1,2})?|LW|(\d{1,2})W")
_DAY_OF_WEEK = re.compile(r"(\w+)(?:L|#[1-5])")


def cron_problem(spec: str) -> str | None:
    """What is wrong with a specification, or None."""
    text = spec.strip().lower()
    if text in _MACROS:
        return None
    parts = spec.split()
    if len(parts) < 5:
        return "missing field(s)"
    fields = _FIELDS[:7] if len(parts) >= 7 else _FIELDS[1 : 1 + len(parts)]
    for (name, low, high, words), part in zip(fields, parts, strict=False):
        for item in part.split(","):
            if not _valid(name, item, low, high, words):
                return f"syntax error in {name} field: '{item}'"
    return None


def _valid(name: str, item: str, low: int, high: int, words: tuple[str, ...]) -> bool:
    if name == "day-of-month" and _DAY_OF_MONTH.fullmatch(item.upper()):
        return True
    if name == "day-of-week":
        special = _DAY_OF_WEEK.fullmatch(item)
        if special and _number(special[1], low, high, words) is not None:
            return True
    m = _RANGE.fullmatch(item)
    if m is None or (m[3] is not None and not whole_number(m[3])):
        return False
    if m[1] in ("*", "?"):
        return m[2] is None
    first = _number(m[1], low, high, words)
    last = first if m[2] is None else _number(m[2], low, high, words)
    return first is not None and last is not None and first <= last


def _number(text: str, low: int, high: int, words: tuple[str, ...]) -> int | None:
    if (value := whole_number(text)) is not None:
        return value if low <= value <= high else None
    lowered = text.lower()
    for index, word in enumerate(words):
        if lowered.startswith(word):
            return index + (1 if low == 1 else 0)
    return None
