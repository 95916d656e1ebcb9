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
from orchgit.whole_number import whole_number

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


def find(item: Any, path: Sequence[str], scope: Mapping[str, Found]) -> Found:
    """Returns the value that `path` names in `item`, or in a name that `scope` binds.

    Raises FieldError for names that the object cannot have.
    """
    bound = scope.get(path[0])
    # A listed object is a struct also where it is kept as a dict.
    value, shape = (item, GoKind("struct")) if bound is None else bound
    for at in range(0 if bound is None else 1, len(path)):
        inside = _seen_through(value, shape)
        found = _part(inside, path, at)
        if found is None:
            if at == len(path) - 1 and at > 0 and inside[1].kind == "map":
                return None, MISSING
            what = ": struct field with name" if inside[1].kind == "struct" else ""
            raise FieldError(
                f"error finding value in datum: {_pointer(path)} at part {at}: "
                f'couldn\'t find key{what} "{path[at]}"'
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
        place, length = whole_number(name), len(value or ())
        if place is None or not 0 <= place < length:
            raise FieldError(
                f"error finding value in datum: {_pointer(path)} at part {at}: "
                f"index {name} is out of range (length = {length})"
            )
        return value[place], shape.element or ANY
    raise FieldError(
        f"error finding value in datum: {_pointer(path)}: at part {at}, "
        f"invalid value kind: {shape.kind}"
    )


def _pointer(path: Sequence[str]) -> str:
    return "/" + "/".join(path)


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
