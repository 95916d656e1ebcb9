"""Regular expressions as job files mean them: RE2 syntax, compiled for Python's `re`.

What RE2 does not know (looking around, back references, possessive repetition) does not compile,
so that a job means the same here as on any other server that runs it.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAMED_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(
    r"""
    \\Q (?P<quoted> .*? ) (?: \\E | \Z )
  | (?P<only_python> \\[1-9kgZuUN] | \(\? (?: [=!>(\#] | <[=!] | P= ) | [*+?}]\+ )
  | \\x\{ (?P<code> [0-9A-Fa-f]{1,6} ) \}
  | (?P<end> \\z | \$ )
  | (?P<named_group> \(\?< )
  | (?P<set> \[ \^? \]? (?: \[:\^?[a-z]+:\] | \\. | [^\]\\] )* \] )
  | (?P<other> \\. | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_SET = re.compile(r"\[:(?P<name>[a-z]+):\]|(?P<escaped>\\.)|(?P<special>[\[&~|])", re.DOTALL)
_MANY_LINES = re.compile(r"\(\?[is]*m")


class _NotRe2Error(Exception):
    """The pattern uses what RE2 does not have."""


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> re.Pattern[str] | None:
    """None when it is not a valid pattern."""
    end = "$" if _MANY_LINES.search(text) else r"\Z"
    try:
        return re.compile(_TOKEN.sub(lambda token: _translated(token, end), text), re.ASCII)
    except (re.error, _NotRe2Error, OverflowError, ValueError):
        return None


def _translated(token: re.Match[str], end: str) -> str:
    match token.lastgroup:
        case "quoted":
            return re.escape(token["quoted"])
        case "only_python":
            raise _NotRe2Error
        case "code":
            return re.escape(chr(int(token["code"], 16)))
        case "end":
            return r"\Z" if token["end"] == r"\z" else end
        case "named_group":
            return "(?P<"
        case "set":
            return "[" + _IN_SET.sub(_translated_in_set, token["set"][1:])
    return token[0]


def _translated_in_set(token: re.Match[str]) -> str:
    """Signs and brackets that Python reserves in sets stand for themselves here."""
    if token.lastgroup == "name":
        if token["name"] not in _NAMED_CLASSES:
            raise _NotRe2Error
        return _NAMED_CLASSES[token["name"]]
    return token[0] if token.lastgroup == "escaped" else "\\" + token[0]
