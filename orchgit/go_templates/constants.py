"""The numbers and strings of Go's source."""

from __future__ import annotations

import re

from orchgit.go_quote import quote
from orchgit.go_templates.values import from_bytes

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.?))",
    re.DOTALL,
)
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INT64 = 1 << 63


class ConstantError(Exception):
    """The text is no constant; the message is Go's."""


def number(text: str) -> int | float:
    """Raises ConstantError."""
    plain = text.replace("_", "")
    lower = plain.lower().lstrip("+-")
    try:
        if lower.startswith("0x") and ("p" in lower or "." in lower):
            return float.fromhex(plain)
        if len(lower) > 1 and lower[0] == "0" and lower.isdigit():
            value: int | float = int(plain, 8)
        elif lower.startswith(("0x", "0o", "0b")) or lower.isdigit():
            value = int(plain, 0)
        else:
            value = float(plain)
    except ValueError:
        raise ConstantError(f"bad number syntax: {quote(text)}") from None
    if isinstance(value, int) and not -_INT64 <= value < 2 * _INT64:
        raise ConstantError(f"integer overflow: {quote(text)}")
    return value


def unquoted(text: str) -> str:
    """The string, or the character, between its quotes. Raises ConstantError."""
    if text.startswith("`"):
        return text[1:-1].replace("\r", "")
    return _ESCAPE.sub(_unescaped, text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    short, byte, four, eight, octal, _ = match.groups()
    if short:
        return _SHORT.get(short, short)
    if byte or octal:
        return from_bytes(bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF]))
    if (four or eight) and int(four or eight, 16) < 0x110000:
        return chr(int(four or eight, 16))
    raise ConstantError("invalid syntax")
