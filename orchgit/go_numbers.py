"""Numbers and truth values in text, read as Go's strconv reads them.

Every function raises InvalidInputError with the message of strconv.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote

_INT64 = 1 << 63
_MOST_LETTERS = 200
"""No number of 64 bits is longer but for zeros and underscores in front, which are taken away."""

_DECIMAL = re.compile(r"[0-9]+")
_OF_ANY_BASE = re.compile(
    r"0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|0(?:_?[0-7])*|[1-9](?:_?[0-9])*"
)
_FLOAT = re.compile(
    r"[+-]?(?:(?:D(?:\.D?)?|\.D)(?:[eE][+-]?D)?|0[xX]_?(?:H(?:\.H?)?|\.H)[pP][+-]?D"
    r"|(?i:inf|infinity))|(?i:nan)".replace("D", "(?:[0-9](?:_?[0-9])*)").replace(
        "H", "(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)"
    )
)


def parse_int(text: str, base: int = 10) -> int:
    """A number of 64 bits. Base 0: the prefix says it, and underscores may part digits."""
    return _parsed_int("ParseInt", text, text[1:] if text[:1] in ("+", "-") else text, base)


def parse_uint(text: str, base: int = 10) -> int:
    """A number of 64 bits without a sign."""
    return _parsed_int("ParseUint", text, text, base)


def parse_float(text: str) -> float:
    """Decimal or hexadecimal, with underscores between digits; infinity and NaN by name."""
    if not _FLOAT.fullmatch(text):
        _refuse("ParseFloat", text, "invalid syntax")
    plain = text.replace("_", "")
    try:
        number = float.fromhex(plain) if "x" in plain.lower() else float(plain)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and "n" not in text.lower():
        _refuse("ParseFloat", text, "value out of range")
    return number


def parse_bool(text: str) -> bool:
    """One of the twelve words that Go knows."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text not in ("0", "f", "F", "false", "FALSE", "False"):
        _refuse("ParseBool", text, "invalid syntax")
    return False


def _parsed_int(function: str, text: str, digits: str, base: int) -> int:
    if not (_OF_ANY_BASE if base == 0 else _DECIMAL).fullmatch(digits):
        _refuse(function, text, "invalid syntax")
    plain = digits.replace("_", "")
    if base == 0 and len(plain) > 1 and plain[0] == "0" and plain.isdigit():
        plain = f"0o{plain[1:]}"
    prefix, rest = (plain[:2], plain[2:]) if plain[1:2].isalpha() else ("", plain)
    rest = rest.lstrip("0") or "0"
    size = int(prefix + rest, 0) if len(rest) <= _MOST_LETTERS else 2 * _INT64
    number = -size if text[:1] == "-" else size
    least, beyond = (0, 2 * _INT64) if function == "ParseUint" else (-_INT64, _INT64)
    if not least <= number < beyond:
        _refuse(function, text, "value out of range")
    return number


def _refuse(function: str, text: str, problem: str) -> NoReturn:
    raise InvalidInputError(f"strconv.{function}: parsing {quote(text)}: {problem}")
