"""Sprig's functions of lists; each name also with `must` before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.templates.sprig.values import is_empty, items_of, to_int
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn
from orchgit.go_templates.values import (
    AnyMap,
    GoStruct,
    from_bytes,
    kind_of,
    to_bytes,
    type_name,
)


def same(first: Any, second: Any) -> bool:
    """As Go's reflect.DeepEqual: types count."""
    if isinstance(first, GoStruct) and isinstance(second, GoStruct):
        return first.go_type == second.go_type and same(
            dict(first.go_fields()), dict(second.go_fields())
        )
    if type_name(first) != type_name(second):
        return False
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def _unique(value: Any) -> list[Any]:
    found: list[Any] = []
    for each in items_of(value, "find uniq"):
        if not any(same(each, known) for known in found):
            found.append(each)
    return found


def _without(value: Any, *omitted: Any) -> list[Any]:
    return [
        each
        for each in items_of(value, "find without")
        if not any(same(each, one) for one in omitted)
    ]


def _has(wanted: Any, value: Any) -> bool:
    if value is None:
        return False
    return any(same(wanted, each) for each in items_of(value, "find has"))


def _sliced(value: Any, *bounds: Any) -> Any:
    items = items_of(value, "slice")
    start, end = [*map(to_int, bounds[:2]), *[0, len(items)][len(bounds[:2]) :]][:2]
    if not 0 <= start <= end <= len(items):
        raise InvalidInputError("slice bounds out of range")
    return items[start:end]


def _chunks(size: int, value: Any) -> list[Any]:
    items = items_of(value, "chunk")
    if size < 1:
        raise InvalidInputError("the size of a chunk must be at least 1")
    return [items[start : start + size] for start in range(0, len(items), size)]


def _last_but(value: Any) -> list[Any]:
    return items_of(value, "find initial")[:-1]


def _first(value: Any) -> Any:
    items = items_of(value, "find first")
    return items[0] if items else None


def _last(value: Any) -> Any:
    items = items_of(value, "find last")
    return items[-1] if items else None


def _concatenated(*values: Any) -> list[Any]:
    return [each for value in values for each in items_of(value, "concat")]


def copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = {key: copied(each) for key, each in value.items()}
        return AnyMap(inner) if isinstance(value, AnyMap) else inner
    if type(value) is list:
        return [copied(each) for each in value]
    return value


def _reversed(value: Any) -> list[Any]:
    return items_of(value, "find reverse")[::-1]


_WITH_MUST: dict[str, GoFunction] = {
    "append": any_fn(lambda value, each: [*items_of(value, "push"), each], 2),
    "push": any_fn(lambda value, each: [*items_of(value, "push"), each], 2),
    "prepend": any_fn(lambda value, each: [each, *items_of(value, "prepend")], 2),
    "first": any_fn(_first),
    "rest": any_fn(lambda value: items_of(value, "find rest")[1:]),
    "last": any_fn(_last),
    "initial": any_fn(_last_but),
    "reverse": any_fn(_reversed),
    "uniq": any_fn(_unique),
    "without": fn(_without, ANY, rest=ANY),
    "has": any_fn(_has, 2),
    "slice": fn(_sliced, ANY, rest=ANY),
    "compact": any_fn(
        lambda value: [each for each in items_of(value, "compact") if not is_empty(each)]
    ),
    "chunk": fn(_chunks, "int", ANY),
    "deepCopy": any_fn(copied),
}
LISTS: dict[str, GoFunction] = {
    **_WITH_MUST,
    **{f"must{name[0].upper()}{name[1:]}": each for name, each in _WITH_MUST.items()},
    "list": fn(lambda *values: list(values), rest=ANY),
    "tuple": fn(lambda *values: list(values), rest=ANY),
    "concat": fn(_concatenated, rest=ANY),
    "deepEqual": any_fn(same, 2),
    "typeOf": any_fn(type_name),
    "typeIs": fn(lambda name, value: type_name(value) == name, "string", ANY),
    "typeIsLike": fn(lambda name, value: type_name(value) in (name, f"*{name}"), "string", ANY),
    "kindOf": any_fn(kind_of),
    "kindIs": fn(lambda name, value: kind_of(value) == name, "string", ANY),
}
__all__ = ["LISTS", "copied", "from_bytes", "same", "to_bytes"]
