"""Sprig's changes of case, by the words of a text: `snakecase`, `kebabcase` and `camelcase`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SEPARATE = ("connector", "punctuation")
_CONNECTORS = "-_"


def _run(text: str, start: int, *kinds: str) -> int:
    """Returns the end of the characters of these kinds that begin at `start`."""
    end = start
    while end < len(text) and _kind(text[end]) in kinds:
        end += 1
    return end


def _kind(character: str) -> str:
    if character in _CONNECTORS or character.isspace():
        return "connector"
    if character.isdigit():
        return "digit"
    if character.isupper():
        return "upper"
    if character.islower():
        return "lower"
    return "punctuation" if unicodedata.category(character).startswith("P") else "other"


def _letters_end(text: str, start: int) -> int:
    """Returns the end of a word of letters and digits."""
    end = _run(text, start, "upper")
    if end == start:
        end = _run(text, start, "lower")
    elif end < len(text) and text[end].islower():
        end = _run(text, end, "lower") if end == start + 1 else end - 1
    return _with_digits(text, end)


def _with_digits(text: str, end: int) -> int:
    """Returns the end of the digits that follow a word, unless small letters follow them."""
    digits = _run(text, end, "digit")
    return end if digits < len(text) and text[digits].islower() else digits


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yields the parts of the text with their kinds: words, digits with the small letters that
    follow, connectors one by one, punctuation, and runs of anything else."""
    at = 0
    while at < len(text):
        kind = _kind(text[at])
        end = at + 1
        if kind == "digit":
            end = _run(text, at, "digit", "lower")
        elif kind in ("upper", "lower"):
            end = _letters_end(text, at)
        elif kind == "other":
            end = _with_digits(text, _run(text, at, "other"))
        elif kind == "punctuation":
            while end < len(text) and (text[end] in "-_" or _kind(text[end]) == kind):
                end += 1
        yield kind, text[at:end]
        at = end


def joined_words(text: str, mark: str) -> str:
    """Returns the words in small letters with `mark` between them and for each connector."""
    parts: list[str] = []
    before = ""
    for kind, word in _words(text):
        if kind not in _SEPARATE and before not in ("", *_SEPARATE):
            parts.append(mark)
        parts.append(mark if kind == "connector" else word.lower())
        before = kind
    return "".join(parts)


_WORD = re.compile(r"[^\s_\-]+")


def camel_case(text: str) -> str:
    """Returns the words with a capital each; of the connectors between two words the last is
    left out."""
    words = list(_WORD.finditer(text))
    if not words:
        return text + text[-1:]
    parts = [text[: words[0].start()]]
    for position, match in enumerate(words):
        parts.append(_capitalized(match[0]))
        after = words[position + 1].start() if position + 1 < len(words) else len(text)
        between = text[match.end() : after]
        parts.append(between[:-1] if after < len(text) else between)
    return "".join(parts)


def _capitalized(word: str) -> str:
    """Capitals at the begin of a word are one: "HTTPServer" becomes "Httpserver"."""
    first, rest = word[0], word[1:]
    if first.isupper():
        run = next((at for at, each in enumerate(rest) if not each.isupper()), len(rest))
        rest = rest[:run].lower() + rest[run:]
    return first.upper() + rest
