"""The functions that Go's text/template defines itself (https://pkg.go.dev/text/template)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from orchgit.errors import InvalidInputError

Function = Callable[..., Any]
_MOST_WIDTH = 10_000
_MOST_DIGITS = 1_000
_VERB = re.compile(r"%([-+ 0]{0,8})(\d{0,12})(?:\.(\d{1,12}))?([sdvqxXtfgeT%])")


def text_of(value: object) -> str:
    """A value as Go prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return f"[{' '.join(map(text_of, value))}]"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{text_of(value[key])}' for key in sorted(value))}]"
    return str(value)


def truth(value: object) -> bool:
    """Go's: empty, zero, false and nothing are false."""
    return bool(value)


def _printf(pattern: str, *arguments: object) -> str:
    rest = list(reversed(arguments))

    def one(match: re.Match[str]) -> str:
        flags, width, precision, verb = match.groups()
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{verb}(MISSING)"
        value = rest.pop()
        if int(width or 0) > _MOST_WIDTH or int(precision or 0) > _MOST_DIGITS:
            raise InvalidInputError(
                f"printf: a width is at most {_MOST_WIDTH}, and a precision {_MOST_DIGITS}"
            )
        flags += width + (f".{precision}" if precision else "")
        if verb == "q":
            return json.dumps(text_of(value))
        if verb in "svtT":
            return f"%{flags}s" % text_of(value)
        return f"%{flags}{verb}" % value

    return _VERB.sub(one, pattern)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            if isinstance(value, Mapping):
                return None
            raise InvalidInputError(f"index {key!r} is not there") from None
    return value


def _quoted_for_urls(text: str) -> str:
    import urllib.parse  # seldom used; not on the start path of the process that renders

    return urllib.parse.quote_plus(text)


def _all_of(*values: object) -> object:
    return next((value for value in values if not truth(value)), values[-1])


def _any_of(*values: object) -> object:
    return next((value for value in values if truth(value)), values[-1])


GO_FUNCTIONS: dict[str, Function] = {
    "and": _all_of,
    "or": _any_of,
    "not": lambda value: not truth(value),
    "eq": lambda first, *others: any(first == other for other in others),
    "ne": lambda first, second: first != second,
    "lt": lambda first, second: first < second,
    "le": lambda first, second: first <= second,
    "gt": lambda first, second: first > second,
    "ge": lambda first, second: first >= second,
    "len": len,
    "index": _index,
    "print": lambda *values: "".join(map(text_of, values)),
    "println": lambda *values: " ".join(map(text_of, values)) + "\n",
    "printf": _printf,
    "urlquery": _quoted_for_urls,
}
