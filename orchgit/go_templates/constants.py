"""The numbers and strings of Go's source."""

from __future__ import annotations

from orchgit.go_quote import quote, unquote

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
    try:
        return unquote(text)
    except ValueError as error:
        raise ConstantError(str(error)) from None
