"""Strings as Go's source has them, which its messages show: `strconv.Quote` and `%q`."""

from __future__ import annotations

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
