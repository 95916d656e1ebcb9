"""HCL's values and types, their conversion and unification.

Values are Python's own where nothing is lost: str, bool, numbers (see `numbers`), tuple for a
tuple, dict for an object. What has an element type carries it: `List`, `SetOf`, `Map`. A null is
`Null(type)`. Types are the strings "string", "number", "bool", "dynamic" and tuples such as
("list", element) or ("object", ((name, type), ...)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from jobspec.evaluation import numbers
from jobspec.evaluation.numbers import NegativeZero, Null

Type = Any
Value = Any

PRIMITIVES = ("string", "number", "bool")


class ConvertError(Exception):
    """A value does not fit a type; the message names what was required."""


class List:
    """A list of one element type."""

    __slots__ = ("element", "items")

    def __init__(self, element: Type, items: list[Value]) -> None:
        self.element = element
        self.items = items


class SetOf:
    """A set, its items distinct and in order."""

    __slots__ = ("element", "items")

    def __init__(self, element: Type, items: Iterable[Value]) -> None:
        self.element = element
        self.items = sorted(distinct(items), key=sort_key)


class Map:
    __slots__ = ("element", "items")

    def __init__(self, element: Type, items: dict[str, Value]) -> None:
        self.element = element
        self.items = items


_NUMBERS = frozenset((int, Fraction, float, NegativeZero))


def type_of(value: Value) -> Type:
    kind = type(value)
    if kind is str:
        return "string"
    if kind is bool:
        return "bool"
    if kind in _NUMBERS:
        return "number"
    if kind is tuple:
        return ("tuple", tuple(type_of(item) for item in value))
    if kind is dict:
        return ("object", tuple((key, type_of(value[key])) for key in sorted(value)))
    if kind is List:
        return ("list", value.element)
    if kind is Map:
        return ("map", value.element)
    if kind is SetOf:
        return ("set", value.element)
    assert kind is Null, kind
    return value.type


def type_name(type_: Type) -> str:
    """The name used in messages: `string`, `tuple`, `list of string`."""
    if isinstance(type_, str):
        return type_
    if type_[0] in ("tuple", "object"):
        return str(type_[0])
    return f"{type_[0]} of {type_name(type_[1])}"


def type_name_of(value: Value) -> str:
    """The name of the value's type, without looking at what is in it."""
    if type(value) is tuple or type(value) is dict:
        return "tuple" if type(value) is tuple else "object"
    return type_name(type_of(value))


def elements(value: Value) -> list[Value] | tuple[Value, ...] | None:
    """The items of a tuple, list or set; None for anything else."""
    if type(value) is tuple:
        return value
    if type(value) is List or type(value) is SetOf:
        items: list[Value] = value.items
        return items
    return None


def mapping(value: Value) -> dict[str, Value] | None:
    """The items of an object or map; None for anything else."""
    if type(value) is dict:
        return value
    if type(value) is Map:
        items: dict[str, Value] = value.items
        return items
    return None


def weigh(value: Value, limit: int) -> int:
    """Counts all values inside this one; stops beyond the limit.

    A value may hold another one twice without costing memory, but each walk costs steps.
    """
    count = 0
    waiting = [value]
    while waiting and count <= limit:
        current = waiting.pop()
        count += 1
        items = elements(current)
        pairs = mapping(current)
        if items is not None:
            waiting.extend(items)
        elif pairs is not None:
            waiting.extend(pairs.values())
    return count


def is_null(value: Value) -> bool:
    return type(value) is Null


def equal(left: Value, right: Value) -> bool:
    """HCL's ==: values of different types are never equal."""
    if type(left) is Null or type(right) is Null:
        return type(left) is Null and type(right) is Null
    return bool(type_of(left) == type_of(right) and _same(left, right))


def _same(left: Value, right: Value) -> bool:
    if type(left) is Null or type(right) is Null:
        return type(left) is type(right)
    items = elements(left)
    if items is not None:
        others = elements(right)
        assert others is not None
        return len(items) == len(others) and all(map(_same, items, others))
    pairs = mapping(left)
    if pairs is not None:
        other_pairs = mapping(right)
        assert other_pairs is not None
        return pairs.keys() == other_pairs.keys() and all(
            _same(pairs[key], other_pairs[key]) for key in pairs
        )
    return bool(left == right)


def sort_key(value: Value) -> tuple[Any, ...]:
    """A total order over values, for sets: by value where primitive, else by content."""
    if type(value) is str:
        return (1, value)
    if type(value) is bool:
        return (0, value)
    if type(value) is Null:
        return (9,)
    items = elements(value)
    if items is not None:
        return (3, tuple(sort_key(item) for item in items))
    pairs = mapping(value)
    if pairs is not None:
        return (4, tuple((key, sort_key(pairs[key])) for key in sorted(pairs)))
    return (2, value)


def distinct(items: Iterable[Value]) -> list[Value]:
    seen: set[Any] = set()
    kept = []
    for item in items:
        key = sort_key(item)
        if key not in seen:
            seen.add(key)
            kept.append(item)
    return kept


# -- conversion -----------------------------------------------------------------------------


def convert(value: Value, type_: Type) -> Value:
    """The value as this type; raises ConvertError."""
    if type_ == "dynamic":
        return value
    if type(value) is Null:
        return value if value.type == type_ else Null(type_)
    if isinstance(type_, str):
        return _TO_PRIMITIVE[type_](value)
    return _TO_COMPOUND[type_[0]](value, type_)


def to_string(value: Value) -> str:
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return "true" if value else "false"
    if kind in _NUMBERS:
        return numbers.to_text(value)
    raise ConvertError(f"string required, but have {type_name_of(value)}")


def to_number(value: Value) -> numbers.Number:
    kind = type(value)
    if kind in _NUMBERS:
        return value  # type: ignore[no-any-return]
    if kind is str:
        number = numbers.parse(value)
        if number is None:
            raise ConvertError("a number is required")
        return number
    raise ConvertError(f"number required, but have {type_name_of(value)}")


def to_bool(value: Value) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in ("true", "1"):
            return True
        if value in ("false", "0"):
            return False
        raise ConvertError("a bool is required")
    raise ConvertError(f"bool required, but have {type_name_of(value)}")


def _to_elements(value: Value, type_: Type) -> Value:
    """Converts to a list or a set: `type_` is `("list", element type)` or `("set", ...)`."""
    items = elements(value)
    if items is None:
        raise ConvertError(f"{type_name(type_)} required, but have {type_name_of(value)}")
    element, converted = _convert_items(items, type_[1])
    return (List if type_[0] == "list" else SetOf)(element, converted)


def _to_map(value: Value, type_: Type) -> Value:
    pairs = mapping(value)
    if pairs is None:
        raise ConvertError(f"{type_name(type_)} required, but have {type_name_of(value)}")
    element, converted = _convert_items(list(pairs.values()), type_[1])
    return Map(element, dict(zip(pairs, converted, strict=True)))


def _convert_items(items: Iterable[Value], element: Type) -> tuple[Type, list[Value]]:
    items = list(items)
    if element == "dynamic":
        unified = unify([type_of(item) for item in items]) if items else "dynamic"
        if unified is None:
            raise ConvertError("all elements must have the same type")
        element = unified
    return element, [convert(item, element) for item in items]


def _to_object(value: Value, type_: Type) -> Value:
    pairs = mapping(value)
    if pairs is None:
        raise ConvertError(f"object required, but have {type_name_of(value)}")
    result = {}
    for name, attr_type in type_[1]:
        if name not in pairs:
            raise ConvertError(f'attribute "{name}" is required')
        try:
            result[name] = convert(pairs[name], attr_type)
        except ConvertError as error:
            raise ConvertError(f'attribute "{name}": {error}') from None
    return result


def _to_tuple(value: Value, type_: Type) -> Value:
    items = elements(value)
    if items is None or type(value) is SetOf:
        raise ConvertError(f"tuple required, but have {type_name_of(value)}")
    if len(items) != len(type_[1]):
        raise ConvertError(f"a tuple of {len(type_[1])} elements is required")
    return tuple(convert(item, t) for item, t in zip(items, type_[1], strict=True))


_TO_PRIMITIVE: dict[str, Callable[[Value], Value]] = {
    "string": to_string,
    "number": to_number,
    "bool": to_bool,
}
_TO_COMPOUND: dict[str, Callable[[Value, Type], Value]] = {
    "list": _to_elements,
    "set": _to_elements,
    "map": _to_map,
    "object": _to_object,
    "tuple": _to_tuple,
}


# -- unification ----------------------------------------------------------------------------


def unify(types: list[Type]) -> Type | None:
    """The one type that all these can become, or None."""
    known = [t for t in types if t != "dynamic"]
    if not known:
        return "dynamic"
    first = known[0]
    if all(t == first for t in known):
        return first
    if all(isinstance(t, str) for t in known):
        return "string" if "string" in known else None
    if any(isinstance(t, str) for t in known):
        return None
    kinds = {t[0] for t in known}
    if kinds <= {"object", "map"}:
        return _unify_mappings(known, kinds)
    if kinds <= {"tuple", "list", "set"}:
        return _unify_sequences(known, kinds)
    return None


def _unify_mappings(types: list[Type], kinds: set[str]) -> Type | None:
    if kinds == {"object"}:
        names = [name for name, _ in types[0][1]]
        if all([name for name, _ in t[1]] == names for t in types):
            unified = [unify([t[1][i][1] for t in types]) for i in range(len(names))]
            if None not in unified:
                return ("object", tuple(zip(names, unified, strict=True)))
            return None
    inner = [t[1] if t[0] == "map" else attr for t in types for attr in _attr_types(t)]
    element = unify(inner)
    return None if element is None else ("map", element)


def _attr_types(type_: Type) -> list[Type]:
    return [type_[1]] if type_[0] == "map" else [attr for _, attr in type_[1]]


def _unify_sequences(types: list[Type], kinds: set[str]) -> Type | None:
    if kinds == {"tuple"}:
        size = len(types[0][1])
        if all(len(t[1]) == size for t in types):
            unified = [unify([t[1][i] for t in types]) for i in range(size)]
            return None if None in unified else ("tuple", tuple(unified))
    inner: list[Type] = []
    for t in types:
        inner.extend(t[1] if t[0] == "tuple" else [t[1]])
    element = unify(inner)
    if element is None:
        return None
    return ("set" if "set" in kinds and "list" not in kinds else "list", element)
