"""What Go calls the types of values in JSON and of fields, in its errors about bodies."""

from __future__ import annotations

import re
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

_PROBLEM = re.compile(r"Expected `(\w+)[^`]*`, got `(\w+)` - at `\$\.?([^`]*)`")
_KINDS = {"str": "string", "int": "number", "float": "number"}
_SCALARS = {str: "string", bool: "bool", int: "int", float: "float64", Any: "interface {}"}
_NAMES = {
    "AutopilotConfig": "AutopilotConfiguration",
    "CsiVolume": "CSIVolume",
    "PreemptionConfig": "PreemptionConfig",
    "SchedulerConfig": "SchedulerConfiguration",
    "VariableBody": "VariableDecrypted",
    "LockBody": "VariableLock",
}
"""Structs that have another name in Nomad."""
_OF_API = frozenset(
    ("AutopilotConfig", "HostVolume", "JobSubmission", "PreemptionConfig", "SchedulerConfig")
)
"""Structs that Nomad reads bodies as in its package `api`; others are of `structs`."""
_INTEGERS = (
    (re.compile(r"_ns$"), "time.Duration"),
    (re.compile(r"_bytes$|_min$|_max$|^capacity$"), "int64"),
    (re.compile(r"_index$|^max_trailing_logs$|^version$"), "uint64"),
    (re.compile(r"^min_quorum$"), "uint"),
)
"""The types of whole numbers, by the names of their fields."""


def kind_of(value: Any) -> str:
    """Returns what Go calls a value in JSON."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def described(value: Any, number_is_wanted: bool) -> str:
    """Returns what Go calls a value of the wrong type: a number that does not fit is shown."""
    kind = kind_of(value)
    if kind == "number" and number_is_wanted:
        return f"number {msgspec.json.encode(value).decode()}"
    return kind


def type_problem(found: str, place: object, go_type: str) -> str:
    """Returns what Go says of a value, described by `found`, in a field of another type."""
    return f"json: cannot unmarshal {found} into Go struct field {place} of type {go_type}"


def type_name(kind: type) -> str:
    """Returns the name of a struct's type."""
    package = "api" if kind.__name__ in _OF_API else "structs"
    return f"{package}.{_short_name(kind)}"


def conversion_problem(error: msgspec.ValidationError, kind: type, above: str) -> str:
    """Returns what Go says where a tree cannot be converted to the struct.

    `above` leads to the tree in the body (`Volume.`).
    """
    problem = _PROBLEM.search(str(error))
    if problem is None or problem[2] == "null":
        return f"cannot read the request body: {error}"
    names = [each for each in re.split(r"\.|\[[^\]]*\]", problem[3]) if each]
    struct, wanted = _at(kind, names)
    # A value in a list or a map is what is wrong, not the list.
    inner = re.search(r"(\[[^\]]*\])+$", problem[3])
    for _ in range(inner[0].count("[") if inner else 0):
        wanted = _inside(wanted)
    found = _KINDS.get(problem[2], problem[2])
    place = f"{_short_name(struct)}.{above}{'.'.join(names)}"
    return type_problem(found, place, _type_of(wanted, names[-1] if names else "", struct))


def _short_name(kind: type) -> str:
    return _NAMES.get(kind.__name__, kind.__name__)


def _at(kind: type, names: list[str]) -> tuple[type, Any]:
    """Returns the struct that holds the last of the fields, and that field's type."""
    struct, wanted = kind, kind
    for name in names:
        wanted = _innermost(wanted)
        struct = wanted
        wanted = _hints(struct).get(name, Any)
    return struct, wanted


@cache
def _hints(struct: type) -> dict[str, Any]:
    if get_origin(struct) is not None or not issubclass(struct, msgspec.Struct):
        return {}
    hints = get_type_hints(struct)
    return {each.encode_name: hints[each.name] for each in msgspec.structs.fields(struct)}


def _bare(kind: Any) -> Any:
    """Returns the type without `| None`."""
    if get_origin(kind) in (Union, UnionType):
        rest = [each for each in get_args(kind) if each not in (NoneType, msgspec.UnsetType)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _inside(kind: Any) -> Any:
    kind = _bare(kind)
    return _bare(get_args(kind)[-1]) if get_origin(kind) in (list, dict) else kind


def _innermost(kind: Any) -> Any:
    inside = _inside(kind)
    return inside if inside == _bare(kind) else _innermost(inside)


def _type_of(kind: Any, name: str, struct: type) -> str:
    kind = _bare(kind)
    if get_origin(kind) is list:
        inside = _inside(kind)
        pointer = "*" if _hints(inside) else ""
        return f"[]{pointer}{_type_of(inside, name, struct)}"
    if get_origin(kind) is dict:
        return f"map[string]{_type_of(_inside(kind), name, struct)}"
    if kind is int:
        fields = msgspec.structs.fields(struct) if _hints(struct) else ()
        own = next((each.name for each in fields if each.encode_name == name), "")
        return next((type_ for pattern, type_ in _INTEGERS if pattern.search(own)), "int")
    if kind in _SCALARS:
        return _SCALARS[kind]
    return type_name(kind) if isinstance(kind, type) else "interface {}"
