"""Text with styles, written as `[red]failed[/red]`: read, measured, and printed with or without
colours."""

from __future__ import annotations

import re
import unicodedata
from typing import TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}
_TAG = re.compile(rf"\\\[|\[(/?)({'|'.join(_CODES)})\]")
_RESET = "\x1b[0m"
_WIDE = frozenset("WF")

Span = tuple[str, str]
"""A piece of text, and the codes of its styles ("" for none)."""


def escaped(text: str) -> str:
    """Returns markup that shows `text` as it is."""
    return text.replace("[", "\\[")


def spans(markup: str) -> list[Span]:
    """Returns the pieces of the text that the markup stands for."""
    result: list[Span] = []
    styles: list[str] = []
    at = 0

    def add(text: str) -> None:
        if text:
            result.append((text, ";".join(_CODES[style] for style in styles)))

    for tag in _TAG.finditer(markup):
        add(markup[at : tag.start()])
        at = tag.end()
        closes, style = tag.groups()
        if style is None:
            add("[")
        elif not closes:
            styles.append(style)
        elif style in styles:
            styles.remove(style)
    add(markup[at:])
    return result


def text_of(pieces: list[Span]) -> str:
    return "".join(text for text, _ in pieces)


def coloured(pieces: list[Span]) -> str:
    """Returns the pieces with the escape sequences of their styles."""
    return "".join(f"\x1b[{codes}m{text}{_RESET}" if codes else text for text, codes in pieces)


def width(text: str) -> int:
    """Returns how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in _WIDE else 1


def cut(pieces: list[Span], room: int) -> list[Span]:
    """Returns the pieces in at most `room` columns, with an ellipsis where something is cut."""
    if width(text_of(pieces)) <= room:
        return pieces
    result: list[Span] = []
    left = room - 1
    for text, codes in pieces:
        kept = ""
        for sign in text:
            if width(kept + sign) > left:
                return [*result, (kept + "…", codes)]
            kept += sign
        left -= width(kept)
        result.append((kept, codes))
    return result


def wants_colours(stream: TextIO, asked: bool | None, environment: dict[str, str]) -> bool:
    """Returns whether text for `stream` is coloured: as the user `asked`, else by the environment,
    else if a terminal shows it."""
    if asked is not None:
        return asked
    if any(environment.get(name) for name in ("NO_COLOR", "NOMAD_CLI_NO_COLOR")):
        return False
    if any(environment.get(name) for name in ("FORCE_COLOR", "NOMAD_CLI_FORCE_COLOR")):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"
