"""Strings as Go's source has them, and its messages show them: `strconv.Quote`, `%q`, `Unquote`."""

from __future__ import annotations

import re

_SHORT = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quote(text: str, ascii_only: bool = False) -> str:
    """Returns the string as Go's source would have it, in double quotes.

    `ascii_only` writes letters beyond ASCII as escapes too (`%+q`). A byte that is no UTF-8, a
    surrogate of Python's `surrogateescape`, becomes `\\xNN`.
    """
    parts = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            parts.append(f"\\{character}")
        elif character in _SHORT:
            parts.append(_SHORT[character])
        elif 0xDC80 <= code <= 0xDCFF:
            parts.append(f"\\x{code - 0xDC00:02x}")
        elif code < 0x20 or code == 0x7F:
            parts.append(f"\\x{code:02x}")
        elif (ascii_only and code > 0x7F) or not (character.isprintable() or character == " "):
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
        else:
            parts.append(character)
    return f'"{"".join(parts)}"'


_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.?))",
    re.DOTALL,
)


def unquote(literal: str) -> str:
    """Returns what a string of Go's source stands for: `strconv.Unquote`, but for the length of a
    character in single quotes. Bytes that are no UTF-8 become surrogates (`surrogateescape`).

    Raises ValueError.
    """
    mark, inside = literal[:1], literal[1:-1]
    if len(literal) < 2 or literal[-1] != mark or mark not in ("`", '"', "'"):
        raise ValueError("invalid syntax")
    if mark == "`":
        if "`" in inside:
            raise ValueError("invalid syntax")
        return inside.replace("\r", "")
    if "\n" in inside or mark in _ESCAPE.sub("", inside):
        raise ValueError("invalid syntax")
    escaped = _ESCAPE.sub(lambda found: _unescaped(found, mark), inside)
    # Two escaped bytes may make one letter.
    return escaped.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _unescaped(found: re.Match[str], mark: str) -> str:
    short, byte, four, eight, octal, _ = found.groups()
    if short and (short not in "'\"" or short == mark):
        return _SHORT_MEANS.get(short, short)
    if byte or (octal and int(octal, 8) < 256):
        value = int(byte, 16) if byte else int(octal, 8)
        return bytes([value]).decode("utf-8", "surrogateescape")
    code = int(four or eight or "110000", 16)
    if code >= 0x110000 or 0xD800 <= code < 0xE000:
        raise ValueError("invalid syntax")
    return chr(code)


_SHORT_MEANS = {written[1:]: character for character, written in _SHORT.items()}
