"""What a reader sees as one character, near enough to Unicode's extended grapheme clusters."""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"


def grapheme_count(text: str) -> int:
    if text.isascii():
        return len(text) - text.count("\r\n")
    return len(graphemes(text))


def graphemes(text: str) -> list[str]:
    """The clusters of a text, in order."""
    if text.isascii() and "\r\n" not in text:
        return list(text)
    clusters: list[str] = []
    start, has_picture = 0, False
    for at, char in enumerate(text):
        if at and not _joins(text[at - 1], char, at - start, has_picture):
            clusters.append(text[start:at])
            start, has_picture = at, False
        has_picture = has_picture or _pictographic(char)
    if text:
        clusters.append(text[start:])
    return clusters


def _joins(last: str, char: str, length: int, has_picture: bool) -> bool:
    """Whether `char` belongs to the cluster of that length which ends with `last`."""
    if last == "\r":
        return char == "\n"
    if last in "\n\0" or char in "\r\n":
        return False
    if _extends(char):
        return True
    if last == _ZWJ:
        return has_picture and _pictographic(char)
    if _regional(char):
        return _regional(last) and length % 2 == 1
    return _hangul_joins(last, char)


def _extends(char: str) -> bool:
    code = ord(char)
    if code < 0x300:
        return False
    return (
        char == _ZWJ
        or code == 0x200C
        or 0x1F3FB <= code <= 0x1F3FF
        or unicodedata.category(char) in ("Mn", "Me", "Mc")
    )


def _regional(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _pictographic(char: str) -> bool:
    code = ord(char)
    return code >= 0x1F000 or 0x2190 <= code <= 0x2BFF or code in (0xA9, 0xAE, 0x203C, 0x2049)


def _hangul_joins(last: str, char: str) -> bool:
    left, code = ord(last), ord(char)
    lead = 0x1100 <= left <= 0x115F
    vowel = 0x1160 <= code <= 0x11A7
    tail = 0x11A8 <= code <= 0x11FF
    if lead:
        return 0x1100 <= code <= 0x115F or vowel or 0xAC00 <= code <= 0xD7A3
    if 0x1160 <= left <= 0x11A7:
        return vowel or tail
    if 0xAC00 <= left <= 0xD7A3:
        return (vowel and (left - 0xAC00) % 28 == 0) or tail
    return 0x11A8 <= left <= 0x11FF and tail
