"""The API's names of everything in a job, derived from the table of blocks.

JSON from clients may lack any field and may spell names in any case; `complete` gives a tree that
has every field under its proper name, null or zero where the client left it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jobspec.blocks.table import TABLES, BlockTable
from orchgit.errors import InvalidInputError

_MAX_DEPTH = 60
_SCALARS: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "bool": (bool, "true or false"),
    "strings": (list, "a list of strings"),
    "uint16s": (list, "a list of numbers"),
    "bytes": (str, "base64 text"),
    "map": (dict, "an object"),
    "free": (dict, "an object"),
    "lists": (dict, "an object"),
}
_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
_OF_TEXTS = ("strings", "map")


class WrongTypeError(InvalidInputError):
    """A value of the wrong type: `kind` is wanted at `path`, in an object of `shape`."""

    def __init__(
        self, path: str, wanted: str, *, shape: ApiShape | None, kind: str, value: Any
    ) -> None:
        super().__init__(f"cannot read {path}: {wanted} is required")
        self.path = path
        self.shape = shape
        self.kind = kind
        self.value = value


@dataclass(slots=True)
class ApiShape:
    """`fields` maps a name, proper or in lower case, to the proper one, how it nests, and the shape
    inside."""

    empty: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    """The table's name."""
    scalars: dict[str, tuple[type, str, str]] = field(default_factory=dict)
    fields: dict[str, tuple[str, str, ApiShape | None]] = field(default_factory=dict)
    nested: dict[str, tuple[str, ApiShape]] = field(default_factory=dict)
    """The proper names of the fields that have a shape of their own, and how they nest."""


@cache
def shape_of(name: str) -> ApiShape:
    """The shape of one table's objects."""
    shape = ApiShape(TABLES[name].empty, name)
    _fill(shape, TABLES[name])
    return shape


def _fill(shape: ApiShape, table: BlockTable) -> None:
    for key in table.empty:
        shape.fields[key.lower()] = (key, "", None)
    for attribute in table.attributes.values():
        shape.scalars[attribute.key] = _scalar(attribute.kind)
    for key, kind in _BESIDE_FILES.get(table.name, {}).items():
        shape.scalars[key] = _scalar(kind)
    if table.label_key is not None:
        shape.scalars[table.label_key] = _scalar("string")
    for block in table.blocks.values():
        inside = None if block.table is None else shape_of(block.table.name)
        if block.key in table.empty or block.key == "CSIPluginConfig":
            shape.fields[block.key.lower()] = (block.key, block.how, inside)
        if block.table is None and block.how in _SCALARS:
            shape.scalars[block.key] = _scalar(block.how)
    if table.name == "task":
        shape.fields["identity"] = ("Identity", "one", shape_of("identity"))
    for known in tuple(shape.fields.values()):
        key, how, inside = shape.fields[known[0]] = known
        if inside is not None:
            shape.nested[key] = (how, inside)


_SCALING = {
    "CreateIndex": "uint64", "ModifyIndex": "uint64", "Min": "int64", "Max": "int64",
    "Target": "map",
    "ID": "string", "Namespace": "string",
}  # fmt: skip
_BESIDE_FILES = {
    "job": {
        "ConsulNamespace": "string", "ConsulToken": "string", "CreateIndex": "uint64",
        "DispatchIdempotencyToken": "string", "Dispatched": "bool", "JobModifyIndex": "uint64",
        "ModifyIndex": "uint64", "NomadTokenID": "string", "ParentID": "string",
        "Payload": "bytes", "Stable": "bool", "Status": "string",
        "StatusDescription": "string", "Stop": "bool", "SubmitTime": "int64",
        "VaultNamespace": "string", "VaultToken": "string", "Version": "uint64",
    },
    "periodic": {"SpecType": "string"},
    "group_scaling": _SCALING,
    "task_scaling": _SCALING,
}  # fmt: skip
"""The kinds of fields that job files do not have, or have as another type."""


def _scalar(kind: str) -> tuple[type, str, str]:
    return (*_SCALARS.get(kind, (int, "a whole number")), kind)


def complete(
    spec: Any,
    shape: ApiShape,
    path: str = "Job",
    depth: int = 0,
    above: ApiShape | None = None,
) -> dict[str, Any]:
    """A new tree with every field of the shape; raises InvalidInputError naming the path."""
    if not isinstance(spec, dict):
        kind = f"*{shape.name}"
        raise WrongTypeError(path, "an object", shape=above, kind=kind, value=spec)
    if depth > _MAX_DEPTH:
        raise InvalidInputError(f"cannot read {path}: it is nested too deeply")
    result = shape.empty.copy()
    for name, value in spec.items():
        known = shape.fields.get(name) or shape.fields.get(str(name).lower())
        if known is None:
            continue
        key, how, inside = known
        if value is None:
            result[key] = shape.empty.get(key) if not how else None
        elif inside is None:
            _check_scalar(value, shape, key, path)
            result[key] = value
        else:
            result[key] = _nested(value, how, inside, f"{path}.{key}", depth + 1, shape)
    return result


def _check_scalar(value: Any, shape: ApiShape, key: str, path: str) -> None:
    scalar = shape.scalars.get(key)
    if scalar is None:
        return
    wanted, description, kind = scalar
    if type(value) is not wanted:
        raise WrongTypeError(f"{path}.{key}", description, shape=shape, kind=kind, value=value)
    given: Any = value
    least, most = _RANGES.get(kind, (0, 0))
    if kind in _RANGES and not least <= given <= most:
        between = f"a whole number from {least} to {most}"
        raise WrongTypeError(f"{path}.{key}", between, shape=shape, kind=kind, value=value)
    if kind in _OF_TEXTS and given:
        for place, each in given.items() if wanted is dict else enumerate(given):
            if type(each) is not str and each is not None:
                at = f"{path}.{key}[{place}]"
                raise WrongTypeError(at, "a string", shape=shape, kind="string", value=each)


def copied(spec: dict[str, Any], shape: ApiShape) -> dict[str, Any]:
    """Copies a complete tree, as the parser makes it. Objects with a shape are new; scalar values
    and objects without a shape are shared."""
    result = spec.copy()
    for key, (how, inside) in shape.nested.items():
        value = result.get(key)
        if not value:
            continue
        if how == "one":
            result[key] = copied(value, inside)
        elif how == "many":
            result[key] = [copied(item, inside) for item in value]
        else:
            result[key] = {name: copied(item, inside) for name, item in value.items()}
    return result


def _nested(value: Any, how: str, inside: ApiShape, path: str, depth: int, above: ApiShape) -> Any:
    if how == "one":
        return complete(value, inside, path, depth, above)
    if how == "many":
        if not isinstance(value, list):
            kind = f"[]*{inside.name}"
            raise WrongTypeError(path, "a list", shape=above, kind=kind, value=value)
        return [
            complete(item, inside, f"{path}[{index}]", depth, above)
            for index, item in enumerate(value)
            if item is not None
        ]
    if not isinstance(value, dict):
        kind = f"map[string]*{inside.name}"
        raise WrongTypeError(path, "an object", shape=above, kind=kind, value=value)
    return {
        key: complete(item, inside, f"{path}[{key}]", depth, above)
        for key, item in value.items()
        if item is not None
    }
