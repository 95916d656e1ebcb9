"""Sprig's functions of lists; each name also with `must` before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.templates.helpers.lists import copied
from agent.templates.sprig.values import is_empty, items_of, to_int
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn
from orchgit.go_templates.values import (
    GoStruct,
    Lists,
    NilList,
    TypedList,
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
    for each in items_of(value, "Cannot find uniq on"):
        if not any(same(each, known) for known in found):
            found.append(each)
    return found


def _without(value: Any, *omitted: Any) -> list[Any]:
    return [
        each
        for each in items_of(value, "Cannot find without on")
        if not any(same(each, one) for one in omitted)
    ]


def _has(wanted: Any, value: Any) -> bool:
    if value is None:
        return False
    return any(same(wanted, each) for each in items_of(value, "Cannot find has on"))


def _sliced(value: Any, *bounds: Any) -> Any:
    if value is not None and not isinstance(value, list):
        raise InvalidInputError(f"list should be type of slice or array but {kind_of(value)}")
    items = items_of(value, "")
    if not items:
        return None
    start, end = [*map(to_int, bounds[:2]), *[0, len(items)][len(bounds[:2]) :]][:2]
    if not 0 <= start <= end <= len(items):
        raise InvalidInputError("reflect.Value.Slice: slice index out of bounds")
    part = items[start:end]
    return type(value)(part) if isinstance(value, TypedList) else part


def _chunks(size: int, value: Any) -> Lists:
    items = items_of(value, "Cannot chunk")
    if size < 1:
        raise InvalidInputError("the size of a chunk must be at least 1")
    return Lists(items[start : start + size] for start in range(0, len(items), size))


def _last_but(value: Any) -> list[Any]:
    items = items_of(value, "Cannot find initial on")
    return items[:-1] if items else NilList()


def _rest(value: Any) -> list[Any]:
    items = items_of(value, "Cannot find rest on")
    return items[1:] if items else NilList()


def _first(value: Any) -> Any:
    items = items_of(value, "Cannot find first on")
    return items[0] if items else None


def _last(value: Any) -> Any:
    items = items_of(value, "Cannot find last on")
    return items[-1] if items else None


def _concatenated(*values: Any) -> list[Any]:
    for value in values:
        if not isinstance(value, list):
            raise InvalidInputError(f"Cannot concat type {kind_of(value)} as list")
    return [each for value in values for each in value] or NilList()


def _deep_copy(value: Any) -> Any:
    if value is None:
        raise InvalidInputError("reflect: call of reflect.Value.Type on zero Value")
    return copied(value)


def _reversed(value: Any) -> list[Any]:
    return items_of(value, "Cannot find reverse on")[::-1]


_WITH_MUST: dict[str, GoFunction] = {
    "append": any_fn(lambda value, each: [*items_of(value, "Cannot push on"), each], 2),
    "push": any_fn(lambda value, each: [*items_of(value, "Cannot push on"), each], 2),
    "prepend": any_fn(lambda value, each: [each, *items_of(value, "Cannot prepend on")], 2),
    "first": any_fn(_first),
    "rest": any_fn(_rest),
    "last": any_fn(_last),
    "initial": any_fn(_last_but),
    "reverse": any_fn(_reversed),
    "uniq": any_fn(_unique),
    "without": fn(_without, ANY, rest=ANY),
    "has": any_fn(_has, 2),
    "slice": fn(_sliced, ANY, rest=ANY),
    "compact": any_fn(
        lambda value: [each for each in items_of(value, "Cannot compact on") if not is_empty(each)]
    ),
    "chunk": fn(_chunks, "int", ANY),
    "deepCopy": any_fn(_deep_copy),
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
