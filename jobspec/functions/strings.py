"""Strings. A character is what a reader sees as one (a grapheme cluster)."""

from __future__ import annotations

from jobspec.evaluation.numbers import Number
from jobspec.evaluation.values import List
from jobspec.functions.signature import (
    ArgumentError,
    Function,
    FunctionError,
    check_length,
    list_of,
    num,
    text,
)
from jobspec.hcl.graphemes import grapheme_count, graphemes


def _whole(value: Number) -> int:
    if type(value) is not int:
        raise FunctionError("value must be a whole number")
    return value


def _indent(spaces: Number, value: str) -> str:
    width = _whole(spaces)
    if width < 0:
        raise FunctionError("the number of spaces must not be negative")
    check_length(len(value) + value.count("\n") * width)
    return value.replace("\n", "\n" + " " * width)


def _join(separator: str, *lists: List) -> str:
    if not lists:
        raise FunctionError("at least one list is required")
    for index, items in enumerate(lists, 1):
        if any(type(item) is not str for item in items.items):
            raise ArgumentError(index, "element is null; cannot concatenate null values")
    joined = [item for items in lists for item in items.items]
    check_length(sum(map(len, joined)) + len(separator) * len(joined))
    return separator.join(joined)


def _replace(value: str, old: str, new: str) -> str:
    check_length(len(value) + value.count(old) * len(new))
    return value.replace(old, new)


def _one_to_one(value: str, mapped: str) -> str:
    """The character that `value` maps to; `value` itself where it maps to several."""
    return mapped if len(mapped) == 1 else value


def lower(value: str) -> str:
    return value.lower() if value.isascii() else "".join(_one_to_one(c, c.lower()) for c in value)


def upper(value: str) -> str:
    return value.upper() if value.isascii() else "".join(_one_to_one(c, c.upper()) for c in value)


def _reverse(value: str) -> str:
    return "".join(reversed(graphemes(value)))


def _split(separator: str, value: str) -> List:
    return List("string", value.split(separator) if separator else list(value))


def _strlen(value: str) -> int:
    return grapheme_count(value) if "\r\n" not in value else len(graphemes(value))


def _substr(value: str, offset: Number, length: Number) -> str:
    start, count = _whole(offset), _whole(length)
    clusters = graphemes(value)
    if start < 0:
        start = max(0, start + len(clusters))
    return "".join(clusters[start:] if count < 0 else clusters[start : start + count])


def _title(value: str) -> str:
    result, previous = [], " "
    for char in value:
        is_word = previous.isalnum() or previous == "_"
        starts_word = not is_word and (previous.isascii() or previous.isspace())
        result.append(_one_to_one(char, char.title()) if starts_word else char)
        previous = char
    return "".join(result)


FUNCTIONS = {
    "chomp": Function(lambda value: value.rstrip("\r\n"), (text(),)),
    "indent": Function(_indent, (num("spaces"), text())),
    "join": Function(_join, (text("separator"),), rest=list_of("lists", "string")),
    "lower": Function(lower, (text(),)),
    "replace": Function(_replace, (text(), text("substr"), text("replace"))),
    "reverse": Function(_reverse, (text(),)),
    "split": Function(_split, (text("separator"), text())),
    "strlen": Function(_strlen, (text(),)),
    "strrev": Function(_reverse, (text(),)),
    "substr": Function(_substr, (text(), num("offset"), num("length"))),
    "title": Function(_title, (text(),)),
    "trim": Function(
        lambda value, cutset: value.strip(cutset) if cutset else value, (text(), text("cutset"))
    ),
    "trimprefix": Function(
        lambda value, prefix: value.removeprefix(prefix), (text(), text("prefix"))
    ),
    "trimspace": Function(lambda value: value.strip(), (text(),)),
    "trimsuffix": Function(
        lambda value, suffix: value.removesuffix(suffix), (text(), text("suffix"))
    ),
    "upper": Function(upper, (text(),)),
}
