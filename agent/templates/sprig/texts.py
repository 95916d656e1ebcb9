"""Sprig's functions of strings."""

from __future__ import annotations

import random
import re
import zlib
from typing import Any

from agent.templates.helpers.encodings import digest
from agent.templates.helpers.texts import (
    check_length,
    go_lower,
    go_split,
    go_title,
    go_upper,
    indented,
    replaced,
)
from agent.templates.sprig.values import to_text, to_texts
from agent.templates.sprig.word_cases import camel_case, joined_words
from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, text_fn
from orchgit.go_templates.values import StringMap, Strings, from_bytes, to_bytes


def _abbreviated(left: int, width: int, text: str) -> str:
    """Counts bytes."""
    return from_bytes(_abbreviated_bytes(left, width, to_bytes(text)))


def _abbreviated_bytes(left: int, width: int, data: bytes) -> bytes:
    if width < 4 or (left > 0 and width < 7) or len(data) <= width:
        return data
    left = min(left, len(data) - (width - 3))
    if left <= 4:
        return data[: width - 3] + b"..."
    if left + width - 3 < len(data):
        return b"..." + _abbreviated_bytes(0, width - 3, data[left:])
    return b"..." + data[-(width - 3) :]


def _truncated(size: int, text: str) -> str:
    data = to_bytes(text)
    if size < 0 and len(data) + size > 0:
        return from_bytes(data[len(data) + size :])
    return from_bytes(data[:size]) if 0 <= size < len(data) else text


def _substring(start: int, end: int, text: str) -> str:
    data = to_bytes(text)
    low = max(start, 0)
    high = len(data) if start >= 0 and not 0 <= end <= len(data) else end
    if not 0 <= high <= len(data):
        shown = f":{high}] with length {len(data)}" if high > 0 else f":{high}]"
        raise InvalidInputError(f"runtime error: slice bounds out of range [{shown}")
    if low > high:
        raise InvalidInputError(f"runtime error: slice bounds out of range [{low}:{high}]")
    return from_bytes(data[low:high])


def _repeated(count: int, text: str) -> str:
    _check_count(count)
    check_length(count * len(text))
    return text * count


def _check_count(count: int) -> None:
    if count < 0:
        raise InvalidInputError("strings: negative Repeat count")


def _indented(spaces: int, text: str) -> str:
    _check_count(spaces)
    return indented(spaces, text)


def _initials(text: str) -> str:
    """Returns the first byte of each word, as a character."""
    return "".join(chr(to_bytes(word)[0]) for word in text.split())


def _without_blanks(text: str) -> str:
    """A text that has a blank is taken byte by byte."""
    joined = "".join(text.split())
    return text if joined == text else to_bytes(joined).decode("latin-1")


def _swapped(text: str) -> str:
    return "".join(go_lower(each) if each.isupper() else go_upper(each) for each in text)


def _wrapped(width: int, mark: str, text: str, long_words: bool = True) -> str:
    """Lines of at most `width` bytes, broken at blanks; longer words are cut."""
    width, mark = max(width, 1), mark or "\n"
    lines: list[bytes] = []
    rest = to_bytes(text)
    while len(rest) > width:
        if rest.startswith(b" "):
            rest = rest[1:]
            continue
        cut = rest.rfind(b" ", 0, width + 1)
        if cut >= 0:
            lines.append(rest[:cut])
            rest = rest[cut + 1 :]
        elif long_words:
            lines.append(rest[:width])
            rest = rest[width:]
        else:
            cut = rest.find(b" ", width)
            if cut < 0:
                break
            lines.append(rest[:cut])
            rest = rest[cut + 1 :]
    return from_bytes(to_bytes(mark).join([*lines, rest]))


def _shuffled(text: str) -> str:
    return "".join(random.sample(text, len(text)))


def _split_map(parts: list[str]) -> StringMap:
    return StringMap({f"_{number}": part for number, part in enumerate(parts)})


def _split_at_most(separator: str, count: int, text: str) -> list[str]:
    """Returns at most `count` parts; all for a negative one."""
    if separator or count < 0:
        return (text.split(separator, count - 1) if separator else list(text)) if count else []
    return [*text[: count - 1], *([text[count - 1 :]] if len(text) >= count else [])]


def _quoted(*values: Any) -> str:
    return " ".join(quote(to_text(value)) for value in values if value is not None)


def _single_quoted(*values: Any) -> str:
    return " ".join(f"'{to_text(value)}'" for value in values if value is not None)


def _joined(separator: str, values: Any) -> str:
    texts = to_texts(values)
    check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _sorted(value: Any) -> Strings:
    if not isinstance(value, list):
        return Strings([to_text(value)])
    return Strings(sorted(to_texts(value), key=to_bytes))


TEXTS: dict[str, GoFunction] = {
    "hello": fn(lambda: "Hello!"),
    "abbrev": fn(lambda width, text: _abbreviated(0, width, text), "int", "string"),
    "abbrevboth": fn(_abbreviated, "int", "int", "string"),
    "trunc": fn(_truncated, "int", "string"),
    "trim": text_fn(str.strip),
    "upper": text_fn(go_upper),
    "lower": text_fn(go_lower),
    "title": text_fn(go_title),
    "untitle": text_fn(lambda text: re.sub(r"(?<!\S)\S", lambda match: go_lower(match[0]), text)),
    "substr": fn(_substring, "int", "int", "string"),
    "repeat": fn(_repeated, "int", "string"),
    "trimall": text_fn(lambda cut, text: text.strip(cut) if cut else text, 2),
    "trimAll": text_fn(lambda cut, text: text.strip(cut) if cut else text, 2),
    "trimSuffix": text_fn(lambda suffix, text: text.removesuffix(suffix), 2),
    "trimPrefix": text_fn(lambda prefix, text: text.removeprefix(prefix), 2),
    "nospace": text_fn(_without_blanks),
    "initials": text_fn(_initials),
    "swapcase": text_fn(_swapped),
    "shuffle": text_fn(_shuffled),
    "snakecase": text_fn(lambda text: joined_words(text, "_")),
    "camelcase": text_fn(camel_case),
    "kebabcase": text_fn(lambda text: joined_words(text, "-")),
    "wrap": fn(lambda width, text: _wrapped(width, "\n", text, False), "int", "string"),
    "wrapWith": fn(_wrapped, "int", "string", "string"),
    "contains": text_fn(lambda part, text: part in text, 2),
    "hasPrefix": text_fn(lambda prefix, text: text.startswith(prefix), 2),
    "hasSuffix": text_fn(lambda suffix, text: text.endswith(suffix), 2),
    "quote": fn(_quoted, rest=ANY),
    "squote": fn(_single_quoted, rest=ANY),
    "cat": fn(
        lambda *values: " ".join(to_text(value) for value in values if value is not None),
        rest=ANY,
    ),
    "indent": fn(_indented, "int", "string"),
    "nindent": fn(lambda spaces, text: "\n" + _indented(spaces, text), "int", "string"),
    "replace": text_fn(lambda old, new, text: replaced(text, old, new), 3),
    "plural": fn(lambda one, many, count: one if count == 1 else many, "string", "string", "int"),
    "sha1sum": text_fn(digest("sha1")),
    "sha256sum": text_fn(digest("sha256")),
    "sha512sum": text_fn(digest("sha512")),
    "adler32sum": text_fn(lambda text: str(zlib.adler32(to_bytes(text)))),
    "toString": any_fn(to_text),
    "toStrings": any_fn(lambda value: Strings(to_texts(value))),
    "split": text_fn(lambda separator, text: _split_map(go_split(text, separator)), 2),
    "splitList": text_fn(lambda separator, text: go_split(text, separator), 2),
    "splitn": fn(
        lambda separator, count, text: _split_map(_split_at_most(separator, count, text)),
        "string",
        "int",
        "string",
    ),
    "join": fn(_joined, "string", ANY),
    "sortAlpha": any_fn(_sorted),
}
