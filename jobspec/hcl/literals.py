"""Text between quotes, and numbers, to values."""

from __future__ import annotations

import re
import unicodedata

from jobspec.errors import HclError
from jobspec.evaluation.numbers import Number, parse

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|([$%])\2\{", re.DOTALL)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_DOUBLED = re.compile(r"([$%])\1\{")


def unescape(text: str, start: int, end: int) -> str:
    """A run inside quotes: backslash escapes and doubled template openers resolved."""
    raw = text[start:end]
    if "\\" not in raw and "{" not in raw:
        return normal(raw)

    def resolve(m: re.Match[str]) -> str:
        if m[2]:
            return m[2] + "{"
        body = m[1]
        if len(body) > 1:
            code = int(body[1:], 16)
            return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if body in _SIMPLE:
            return _SIMPLE[body]
        at = start + m.start()
        if body in "uU":
            digits = 4 if body == "u" else 8
            raise HclError(
                f"Invalid escape sequence: \\{body} must be followed by {digits} hex digits.",
                at,
                at + 2,
            )
        raise HclError(
            f'Invalid escape sequence: the symbol "{body}" is not a valid escape selector.',
            at,
            at + 2,
            hint='Write "\\\\" for a backslash.',
        )

    return normal(_ESCAPE.sub(resolve, raw))


def undouble(raw: str) -> str:
    """A run in a heredoc: only `$${` and `%%{` mean something else."""
    return normal(_DOUBLED.sub(r"\1{", raw) if "{" in raw else raw)


def normal(text: str) -> str:
    """Strings are compared and stored in one Unicode form (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def number(text: str) -> Number:
    """A number as written; raises OverflowError where it is beyond all use."""
    if text.isdecimal() and len(text) < 100:
        return int(text)
    value = parse(text)
    if value is None:
        raise OverflowError(text)
    return value
