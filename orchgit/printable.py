"""Text from outside, for a terminal: what would steer the terminal is made visible instead.

Commit subjects, authors, file and job names are written by anybody who may push. An escape sequence
in them could recolour, overwrite or retype what a person reads; a control for the direction of
writing could show another name than the real one.
"""

from __future__ import annotations

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SEPARATORS = (0x2028, 0x2029)
_SURROGATES = range(0xD800, 0xE000)


_VISIBLE = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*_CONTROLS, *_DIRECTIONS, *_SEPARATORS, *_SURROGATES)
}
del _VISIBLE[ord("\n")], _VISIBLE[ord("\t")]


def printable(text: str) -> str:
    """The text with every character that steers a terminal written as `\\x1b` or `\\u202e`. Line
    feeds and tabs stay."""
    return text.translate(_VISIBLE)
