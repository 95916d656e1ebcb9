"""What Go lets be an argument of a function: types are not converted."""

from __future__ import annotations

from typing import Any

from orchgit.go_templates.functions import ANY
from orchgit.go_templates.tree import LiteralValue
from orchgit.go_templates.values import (
    INVALID,
    Int64,
    NilList,
    NilStrings,
    kind_of,
    plain,
    type_name,
)

_INT64 = 1 << 63
_MAY_BE_NIL = ("[]", "map", "*")


class RefusedArgument(Exception):
    """A value that cannot be this argument."""


def literal_value(node: LiteralValue) -> Any:
    """Raises RefusedArgument for a number of more than 64 bits."""
    if isinstance(node.value, int) and node.value >= _INT64:
        raise RefusedArgument(f"{node.text} overflows int")
    return node.value


def literal_argument(node: LiteralValue, type_: str | None) -> Any:
    """The constant as an argument of the type; None: of any. Raises RefusedArgument."""
    if type_ is None or type_ == ANY:
        return literal_value(node)
    if node.kind == "nil":
        if type_.startswith(_MAY_BE_NIL):
            return _nil_of(type_)
        raise RefusedArgument(f"cannot assign nil to {type_}")
    value = node.value
    if type_ in ("string", "bool"):
        if node.kind != type_:
            raise RefusedArgument(f"expected {type_}; found {node}")
        return value
    if type_ in ("int", "int64", "time.Duration"):
        if isinstance(value, float) and value.is_integer() and abs(value) < _INT64:
            value = int(value)
        if node.kind != "number" or not isinstance(value, int):
            raise RefusedArgument(f"expected integer; found {node}")
        return Int64(value) if type_ == "int64" else value
    if type_ == "float64":
        if node.kind != "number" or not isinstance(value, int | float):
            raise RefusedArgument(f"expected float; found {node}")
        return float(value)
    raise RefusedArgument(f"can't handle {node} for arg of type {type_}")


def checked_argument(value: Any, type_: str | None) -> Any:
    """The value as an argument of the type; None: of any. Raises RefusedArgument."""
    if type_ is None or type_ == ANY:
        return None if value is INVALID and type_ == ANY else value
    if value is INVALID:
        if type_.startswith(_MAY_BE_NIL):
            return _nil_of(type_)
        raise RefusedArgument(f"invalid value; expected {type_}")
    if type_ == "string":
        value = plain(value)
    if not _is_assignable(value, type_):
        got = "interface {}" if value is None else type_name(value)
        raise RefusedArgument(f"wrong type for value; expected {type_}; got {got}")
    return value


def _nil_of(type_: str) -> Any:
    """Returns nil of a type: a map and a list without elements."""
    if type_.startswith("map"):
        return {}
    if type_.startswith("[]"):
        return NilStrings() if type_ == "[]string" else NilList()
    return INVALID


def _is_assignable(value: Any, type_: str) -> bool:
    if type_name(value) == type_:
        return True
    kind = kind_of(value)
    if type_.startswith("[]") and kind == "slice":
        bases = [getattr(base, "go_type", "") for base in type(value).__mro__]
        return type_ in bases and bases[0] != "[]interface {}" and type_ != "[]interface {}"
    return False
