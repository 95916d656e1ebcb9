"""consul-template's functions of strings."""

from __future__ import annotations

import re
import unicodedata

from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import MAX_TEXT
from orchgit.go_templates.functions import GoFunction, fn, text_fn
from orchgit.go_templates.values import StringMap, Strings


def check_length(characters: int) -> None:
    if characters > MAX_TEXT:
        raise InvalidInputError(f"the result has over {MAX_TEXT} characters, the limit")


def go_title(text: str) -> str:
    """The first letter of each word in upper case, the others as they are."""
    parts, after_letter = [], False
    for character in text:
        parts.append(character if after_letter else go_upper(character))
        is_word = character == "_" or character.isalnum()
        after_letter = is_word or (ord(character) > 0x7F and not character.isspace())
    return "".join(parts)


_WITHIN_WORDS = frozenset(".':\u00b7\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def word_title(text: str) -> str:
    """Returns the text with the first letter that has a case in upper case, in each word as Unicode
    parts them: an apostrophe, a point or a colon between two letters belongs to a word."""
    parts, is_within = [], False
    for position, character in enumerate(text):
        has_case = character.lower() != character.upper()
        parts.append(character.title() if has_case and not is_within else character)
        if has_case:
            is_within = True
        elif character in _WITHIN_WORDS:
            is_within = is_within and _is_word(text[position + 1 : position + 2])
        elif not _is_word(character) or _IDEOGRAPHS.match(character):
            is_within = False
    return "".join(parts)


def _is_word(character: str) -> bool:
    return bool(character) and (
        character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Me", "Pc")
    )


def go_upper(text: str) -> str:
    """Letter by letter: a letter that would become two stays as it is."""
    return "".join(each.upper() if len(each.upper()) == 1 else each for each in text)


def go_lower(text: str) -> str:
    return "".join(each.lower() if len(each.lower()) == 1 else each for each in text)


def go_split(text: str, separator: str) -> Strings:
    return Strings(text.split(separator)) if separator else Strings(text)


def _split(separator: str, text: str) -> Strings:
    text = text.strip()
    return go_split(text, separator) if text else Strings()


def _split_to_map(separator: str, inner: str, text: str) -> StringMap:
    found = StringMap()
    for pair in _split(separator, text):
        key, mark, value = pair.partition(inner) if inner else ("", "all", pair)
        if mark:
            found[key] = value
    return found


def _join(separator: str, values: list[str]) -> str:
    check_length(sum(map(len, values)) + len(separator) * len(values))
    return separator.join(values)


def replaced(text: str, old: str, new: str) -> str:
    check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indent(spaces: int, text: str) -> str:
    if spaces < 0:
        raise InvalidInputError("indent value must be a positive integer")
    check_length(len(text) + spaces * (text.count("\n") + 1))
    return re.sub(r"(?m)^(?=[^\n])", " " * spaces, text)


def indented(spaces: int, text: str) -> str:
    """Each line, empty ones too, behind so many blanks."""
    check_length(len(text) + max(0, spaces) * (text.count("\n") + 1))
    return " " * spaces + text.replace("\n", "\n" + " " * spaces)


TEXTS: dict[str, GoFunction] = {
    "join": fn(_join, "string", "[]string"),
    "split": text_fn(_split, 2),
    "splitToMap": text_fn(_split_to_map, 3),
    "replaceAll": text_fn(lambda old, new, text: replaced(text, old, new), 3),
    "toLower": text_fn(go_lower),
    "toUpper": text_fn(go_upper),
    "toTitle": text_fn(word_title),
    "trim": text_fn(lambda cut, text: text.strip(cut) if cut else text, 2),
    "trimSpace": text_fn(str.strip),
    "trimPrefix": text_fn(lambda prefix, text: text.removeprefix(prefix), 2),
    "trimSuffix": text_fn(lambda suffix, text: text.removesuffix(suffix), 2),
    "indent": fn(_indent, "int", "string"),
}
