"""Finds what a filter's selector names in an object, and of which of Go's kinds it is.

Filters are written for Nomad's stored objects, so a value that is absent means what it means there:
a missing key of a map is a value that equals nothing; an absent pointer can be compared with
nothing at all; an absent list is an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_int
from orchgit.go_quote import quote

PREFIX = "failed to read result page: "
_POINTERS = frozenset(("ExpirationTime", "UI"))
"""Fields that are pointers in Nomad though they do not look it here; an absent time is otherwise
Go's zero time, a struct."""
_TIMES = frozenset(("WaitUntil",))
"""Fields that are times in Nomad and numbers here."""
_BY_VALUE = frozenset((("Job", "Update"),))
"""Structs that Nomad stores by value: absent is the same as empty."""
_ALWAYS_NULL: Mapping[str, frozenset[str]] = {
    "NodePool": frozenset(("SchedulerConfiguration",)),
}
"""Pointers of Nomad's objects that are never set here."""
_ONLY_IN_ANSWERS: Mapping[str, frozenset[str]] = {
    "Allocation": frozenset(("JobVersion", "JobType")),
    "AllocationWithJob": frozenset(("JobVersion", "JobType")),
    "Node": frozenset(("Address", "Drain", "Version")),
}
"""Names that answers have and Nomad's stored objects do not."""


class FieldError(InvalidInputError):
    """A filter asks an object for what it does not have, or compares what cannot be compared."""

    def __init__(self, text: str) -> None:
        super().__init__(PREFIX + text)


@dataclass(frozen=True, slots=True)
class GoKind:
    """What a value is for a filter: one of Go's kinds, `any`, or `pointer` to an element."""

    kind: str
    element: GoKind | None = None
    struct: type[msgspec.Struct] | None = None


ANY = GoKind("any")
MISSING = GoKind("missing")
"""A key that a map does not have."""
INVALID = GoKind("invalid")
"""A null pointer, seen through."""

Found = tuple[Any, GoKind]


@dataclass(frozen=True, slots=True)
class BoundValue:
    """What a name stands for inside `any` and `all`: a part of the object with the path to it, or,
    without a path, an index or a key."""

    found: Found
    path: tuple[str, ...] = ()


Scope = Mapping[str, BoundValue]


def whole_path(path: tuple[str, ...], scope: Scope) -> tuple[str, ...]:
    """Returns the path from the object to what `path` names, which may begin with a bound name."""
    bound = scope.get(path[0])
    return path if bound is None else (*bound.path, *path[1:])


def find(item: Any, path: tuple[str, ...], scope: Scope) -> Found:
    """Returns the value that `path` names in `item`, or in a name that `scope` binds.

    Raises FieldError for names that the object cannot have.
    """
    bound = scope.get(path[0])
    # A listed object is a struct also where it is kept as a dict.
    value, shape = (item, GoKind("struct")) if bound is None else bound.found
    if bound is not None and not bound.path and len(path) > 1:
        raise FieldError(f"/{path[0]} references a {shape.kind} so {_pointer(path)} is invalid")
    path = whole_path(path, scope)
    for at in range(0 if bound is None else len(bound.path), len(path)):
        inside = _seen_through(value, shape)
        found = _part(inside, path, at)
        if found is None:
            if at == len(path) - 1 and at > 0 and inside[1].kind == "map":
                return None, MISSING
            what = ": struct field with name" if inside[1].kind == "struct" else ""
            raise FieldError(
                f"error finding value in datum: {_pointer(path)} at part {at}: "
                f"couldn't find key{what} {quote(path[at])}"
            )
        value, shape = found
    return _seen_through(value, shape)


def items_of(found: Found) -> list[Found] | dict[str, Found] | None:
    """Returns the elements of a list or map with their shapes; None for other values."""
    value, shape = found
    element = shape.element or ANY
    if shape.kind == "list":
        return [_seen_through(each, element) for each in value or ()]
    if shape.kind == "map":
        return {str(key): _seen_through(each, element) for key, each in (value or {}).items()}
    return [] if shape is MISSING else None


def type_of(shape: GoKind) -> str:
    """The name of Go's type of a value, as far as it can be told."""
    if shape.kind in ("list", "map"):
        element = shape.element or ANY
        # Nomad's lists and maps of structs hold pointers.
        pointer = "*" if element.kind == "struct" else ""
        return f"{'[]' if shape.kind == 'list' else 'map[string]'}{pointer}{type_of(element)}"
    if shape.kind == "struct" and shape.struct is not None:
        return f"structs.{shape.struct.__name__}"
    return "interface {}" if shape.kind == "any" else shape.kind


def _part(inside: Found, path: Sequence[str], at: int) -> Found | None:
    value, shape = inside
    name = path[at]
    if shape.kind == "struct" and isinstance(value, dict):
        return (value[name], ANY) if name in value else None
    if shape.kind == "struct" and isinstance(value, msgspec.Struct):
        known = _fields_of(type(value)).get(name)
        return None if known is None else (getattr(value, known[0], None), known[1])
    if shape.kind == "struct" and value is None and shape.struct is not None:
        known = _fields_of(shape.struct).get(name)
        return None if known is None else (None, known[1])
    if shape.kind == "map":
        return (value[name], shape.element or ANY) if value and name in value else None
    if shape.kind == "list":
        return _element(value or (), path, at), shape.element or ANY
    raise FieldError(
        f"error finding value in datum: {_pointer(path)}: at part {at}, "
        f"invalid value kind: {shape.kind}"
    )


def _element(values: Sequence[Any], path: Sequence[str], at: int) -> Any:
    where = f"error finding value in datum: {_pointer(path)} at part {at}"
    try:
        place = parse_int(path[at], 0) if path[at] else 0
    except InvalidInputError:
        raise FieldError(f"{where}: couldn't convert value {quote(path[at])} to type int") from None
    if not 0 <= place < len(values):
        raise FieldError(f"{where}: index {place} is out of range (length = {len(values)})")
    return values[place]


def _pointer(path: Sequence[str]) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def _seen_through(value: Any, shape: GoKind) -> Found:
    if shape.kind == "pointer":
        # A time of 0 is none.
        is_null = value is None or (shape.element is ANY and value == 0)
        return (None, INVALID) if is_null else (value, shape.element or ANY)
    if shape.kind != "any":
        return value, shape
    if value is None:
        return None, INVALID
    if isinstance(value, msgspec.Struct):
        return value, GoKind("struct", struct=type(value))
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "bool"),
        (int, "int"),
        (float, "float64"),
        (str, "string"),
        (dict, "map"),
        ((list, tuple, set, frozenset), "list"),
    )
    kind = next((kind for type_, kind in kinds if isinstance(value, type_)), "struct")
    return value, GoKind(kind)


@cache
def _fields_of(kind: type[msgspec.Struct]) -> dict[str, tuple[str, GoKind]]:
    """Returns (attribute, shape) by Go's names of the fields."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    hidden = _ONLY_IN_ANSWERS.get(kind.__name__, frozenset())
    found = {
        each.encode_name: (each.name, _shape(each.type, each.encode_name))
        for each in info.fields
        if each.encode_name not in hidden
    }
    for owner, name in _BY_VALUE:
        if owner == kind.__name__ and name in found:
            attribute, shape = found[name]
            found[name] = attribute, shape.element or shape
    always_null = _ALWAYS_NULL.get(kind.__name__, frozenset())
    return {**found, **{name: (name, GoKind("pointer")) for name in always_null}}


def _shape(kind: inspect.Type, name: str) -> GoKind:
    if name in _POINTERS:
        return GoKind("pointer", ANY)
    if name in _TIMES:
        return GoKind("struct")
    if isinstance(kind, inspect.UnionType):
        return _shape_of_union(kind, name)
    if isinstance(kind, inspect.StructType):
        return GoKind("struct", struct=kind.cls)
    if isinstance(kind, inspect.DictType):
        return GoKind("map", _shape(kind.value_type, ""))
    if isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType):
        return GoKind("list", _shape(kind.item_type, ""))
    simple: tuple[tuple[type[inspect.Type], str], ...] = (
        (inspect.StrType, "string"),
        (inspect.EnumType, "string"),
        (inspect.LiteralType, "string"),
        (inspect.BoolType, "bool"),
        (inspect.IntType, "uint64" if name.endswith("Index") else "int"),
        (inspect.FloatType, "float64"),
        (inspect.DateTimeType, "struct"),
    )
    return GoKind(next((word for type_, word in simple if isinstance(kind, type_)), "any"))


def _shape_of_union(kind: inspect.UnionType, name: str) -> GoKind:
    rest = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(rest) != 1:
        return ANY
    inner = _shape(rest[0], name)
    if inner.kind in ("list", "map", "any"):
        return inner
    if isinstance(rest[0], inspect.DateTimeType):
        return inner
    return GoKind("pointer", inner)
