"""What a filter asks of the value that its selector names: equal, contained, matched, empty, null.

Each of the functions makes a test of an object; `scope` holds what `any` and `all` around it bound.
A test raises FieldError for what cannot be asked of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.filter_values import (
    ANY,
    MISSING,
    BoundValue,
    FieldError,
    Found,
    GoKind,
    Scope,
    find,
    items_of,
    type_of,
    whole_path,
)
from orchgit.go_numbers import parse_bool, parse_float, parse_int, parse_uint
from orchgit.go_quote import quote
from orchgit.regex import PatternError, compile_pattern

Test = Callable[[Any, Scope], bool]

_MAX_SEARCH_STEPS = 500_000
"""Of `matches` on one value: 2 ms, as a list has many values."""
_NULLABLE = frozenset(("list", "map", "struct", "invalid", "missing"))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """The names on the way to a value."""

    path: tuple[str, ...]
    separator: str = "."

    def __str__(self) -> str:
        return self.separator.join(self.path)

    def find(self, item: Any, scope: Scope) -> Found:
        return find(item, self.path, scope)


@dataclass(frozen=True, slots=True)
class BoundNames:
    """The names that a round of `any` or `all` binds; "" binds nothing. `place` is an index of a
    list or a key of a map; `either` is the element of a list, or the key of a map."""

    place: str = ""
    element: str = ""
    either: str = ""


def equals(selector: FieldSelector, wanted: str, negated: bool) -> Test:
    def test(item: Any, scope: Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return negated
        sought = _like(shape, wanted)
        if sought is None:
            raise FieldError("unable to find suitable primitive comparison function for matching")
        return _is_equal(value, sought) != negated

    return test


def contains(selector: FieldSelector, wanted: str, negated: bool) -> Test:
    def test(item: Any, scope: Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return negated
        if shape.kind == "string":
            return (wanted in str(value or "")) != negated
        if shape.kind == "map":
            return (wanted in (value or {})) != negated
        elements = items_of((value, shape))
        if not isinstance(elements, list):
            _like(shape, wanted)
            raise FieldError(
                f"cannot perform in/contains operations on type {shape.kind} "
                f"for selector: {quote(str(selector))}"
            )
        return _has_element(elements, shape.element or ANY, wanted) != negated

    return test


def matches(selector: FieldSelector, wanted: str, negated: bool) -> Test:
    def test(item: Any, scope: Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return negated
        if shape.kind != "string":
            raise FieldError(f"value of type {type_of(shape)} is not convertible to []byte")
        try:
            pattern = compile_pattern(wanted)
        except PatternError as error:
            raise FieldError(
                f"failed to compile regular expression {quote(wanted)}: {error}"
            ) from error
        return pattern.search(str(value or ""), _MAX_SEARCH_STEPS) != negated

    return test


def is_empty(selector: FieldSelector, wanted: str, negated: bool) -> Test:
    def test(item: Any, scope: Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return not negated
        if shape.kind not in ("string", "list", "map"):
            raise FieldError(
                f"cannot perform is-empty operations on type {shape.kind} "
                f"for selector: {quote(str(selector))}"
            )
        return (not value) != negated

    return test


def is_nil(selector: FieldSelector, wanted: str, negated: bool) -> Test:
    def test(item: Any, scope: Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape.kind not in _NULLABLE:
            raise FieldError(
                f"cannot perform is-nil operations on type {shape.kind} "
                f"for selector: {quote(str(selector))}"
            )
        # A struct that is stored by value is there, also where it is empty.
        return (value is None and shape.kind != "struct") != negated

    return test


def bindings(selector: FieldSelector, bound: BoundNames, item: Any, scope: Scope) -> list[Scope]:
    """Returns what each round of `any` or `all` binds."""
    elements = items_of(selector.find(item, scope))
    if elements is None:
        raise FieldError(f"{selector} is not a list or a map")
    path = whole_path(selector.path, scope)
    rounds: list[Scope] = []
    keys = elements.items() if isinstance(elements, dict) else enumerate(elements)
    for key, found in keys:
        place = BoundValue((key, GoKind("string" if isinstance(key, str) else "int")))
        element = BoundValue(found, (*path, str(key)))
        either = place if isinstance(elements, dict) else element
        names = {bound.place: place, bound.element: element, bound.either: either}
        rounds.append({name: value for name, value in names.items() if name})
    return rounds


def _has_element(elements: Sequence[Found], kind: GoKind, wanted: str) -> bool:
    sought = _like(kind, wanted)
    for value, shape in elements:
        # What Python's lists of anything hold is told by each of their values.
        each = _like(shape, wanted) if sought is None else sought
        if each is None:
            raise FieldError(
                'unable to find suitable primitive comparison function for "in" comparison'
            )
        if _is_equal(value, each):
            return True
    return False


def _is_equal(value: Any, sought: str | float) -> bool:
    """The zero value of its kind stands for an absent one."""
    return bool((type(sought)() if value is None else value) == sought)


def _like(shape: GoKind, wanted: str) -> str | float | None:
    """Returns `wanted` as a value of this kind; None where the kind is no primitive one."""
    if shape.kind == "string":
        return wanted
    parse = _PARSERS.get(shape.kind)
    if parse is None:
        return None
    try:
        return parse(wanted)
    except InvalidInputError as error:
        raise FieldError(f"error getting match value in expression: {error}") from None


_PARSERS: Mapping[str, Callable[[str], float]] = {
    "bool": parse_bool,
    "int": lambda text: parse_int(text, 0),
    "uint64": lambda text: parse_uint(text, 0),
    "float64": parse_float,
}
