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
from orchgit.go_quote import quote
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, text_fn
from orchgit.go_templates.values import StringMap, Strings, from_bytes, to_bytes

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")


def _abbreviated(left: int, width: int, text: str) -> str:
    if width < 4 or (left > 0 and width < 7) or len(text) < width:
        return text
    if len(text) == width:
        return text
    if left <= 4:
        return text[: width - 3] + "..."
    if left + width - 3 < len(text):
        return f"...{_abbreviated(0, width - 3, text[left:])}"
    return f"...{text[-(width - 3) :]}"


def _truncated(size: int, text: str) -> str:
    data = to_bytes(text)
    if size < 0 and len(data) + size > 0:
        return from_bytes(data[len(data) + size :])
    return from_bytes(data[:size]) if 0 <= size < len(data) else text


def _substring(start: int, end: int, text: str) -> str:
    data = to_bytes(text)
    if start < 0:
        return from_bytes(data[: max(end, 0)])
    if end < 0 or end > len(data):
        return from_bytes(data[start:])
    return from_bytes(data[start:end])


def _repeated(count: int, text: str) -> str:
    check_length(max(0, count) * len(text))
    return text * max(0, count)


def _words(text: str) -> list[str]:
    return _WORDS.findall(text)


def _snake(text: str, mark: str = "_") -> str:
    """Words by case become words by a mark; marks that are there stay."""
    parts: list[str] = []
    for position, character in enumerate(text):
        if character in " _-.":
            parts.append(mark)
            continue
        before, after = text[position - 1 : position], text[position + 1 : position + 2]
        starts = character.isupper() and before not in ("", " ", "_", "-", ".")
        if starts and (not before.isupper() or (after.islower())):
            parts.append(mark)
        parts.append(character.lower())
    return re.sub(f"{re.escape(mark)}+", mark, "".join(parts))


def _camel(text: str) -> str:
    """Every word begins in upper case; marks between words go, marks at the ends stay."""
    body = text.strip("_- ")
    if not body:
        return text
    start = text[: text.index(body)]
    end = text[len(start) + len(body) :]
    joined = "".join(word[:1].upper() + word[1:] for word in re.split(r"[_\- ]+", body))
    return f"{start}{joined}{end}"


def _swapped(text: str) -> str:
    return "".join(go_lower(each) if each.isupper() else go_upper(each) for each in text)


def _wrapped(width: int, mark: str, text: str, long_words: bool = True) -> str:
    """Lines of at most `width` characters, broken at blanks; longer words are cut."""
    width, mark = max(width, 1), mark or "\n"
    lines, rest = [], text
    while len(rest) > width:
        if rest[0] == " ":
            rest = rest[1:]
            continue
        cut = rest.rfind(" ", 0, width + 1)
        if cut >= 0:
            lines.append(rest[:cut])
            rest = rest[cut + 1 :]
        elif long_words:
            lines.append(rest[:width])
            rest = rest[width:]
        else:
            cut = rest.find(" ", width)
            if cut < 0:
                break
            lines.append(rest[:cut])
            rest = rest[cut + 1 :]
    return mark.join([*lines, rest])


def _shuffled(text: str) -> str:
    return "".join(random.sample(text, len(text)))


def _split_map(parts: list[str]) -> StringMap:
    return StringMap({f"_{number}": part for number, part in enumerate(parts)})


def _quoted(*values: Any) -> str:
    return " ".join(quote(to_text(value)) for value in values if value is not None)


def _single_quoted(*values: Any) -> str:
    return " ".join(f"'{to_text(value)}'" for value in values if value is not None)


def _joined(separator: str, values: Any) -> str:
    texts = to_texts(values)
    check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


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
    "nospace": text_fn(lambda text: "".join(text.split())),
    "initials": text_fn(lambda text: "".join(word[0] for word in text.split())),
    "swapcase": text_fn(_swapped),
    "shuffle": text_fn(_shuffled),
    "snakecase": text_fn(_snake),
    "camelcase": text_fn(_camel),
    "kebabcase": text_fn(lambda text: _snake(text, "-")),
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
    "indent": fn(indented, "int", "string"),
    "nindent": fn(lambda spaces, text: "\n" + indented(spaces, text), "int", "string"),
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
        lambda separator, count, text: _split_map(text.split(separator, count - 1)),
        "string",
        "int",
        "string",
    ),
    "join": fn(_joined, "string", ANY),
    "sortAlpha": any_fn(lambda value: Strings(sorted(to_texts(value), key=to_bytes))),
}
