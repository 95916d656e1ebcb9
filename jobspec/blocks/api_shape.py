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
    "map": (dict, "an object"),
}


@dataclass(slots=True)
class ApiShape:
    """`fields` maps a name, proper or in lower case, to the proper one, how it nests, and the shape
    inside."""

    empty: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, tuple[type, str]] = field(default_factory=dict)
    fields: dict[str, tuple[str, str, ApiShape | None]] = field(default_factory=dict)
    nested: dict[str, tuple[str, ApiShape]] = field(default_factory=dict)
    """The proper names of the fields that have a shape of their own, and how they nest."""


@cache
def shape_of(name: str) -> ApiShape:
    """The shape of one table's objects."""
    shape = ApiShape(TABLES[name].empty)
    _fill(shape, TABLES[name])
    return shape


def _fill(shape: ApiShape, table: BlockTable) -> None:
    for key in table.empty:
        shape.fields[key.lower()] = (key, "", None)
    for attribute in table.attributes.values():
        shape.scalars[attribute.key] = _SCALARS.get(attribute.kind, (int, "a whole number"))
    if table.label_key is not None:
        shape.scalars[table.label_key] = _SCALARS["string"]
    for block in table.blocks.values():
        inside = None if block.table is None else shape_of(block.table.name)
        if block.key in table.empty or block.key == "CSIPluginConfig":
            shape.fields[block.key.lower()] = (block.key, block.how, inside)
    if table.name == "task":
        shape.fields["identity"] = ("Identity", "one", shape_of("identity"))
    for known in tuple(shape.fields.values()):
        key, how, inside = shape.fields[known[0]] = known
        if inside is not None:
            shape.nested[key] = (how, inside)


def complete(spec: Any, shape: ApiShape, path: str = "Job", depth: int = 0) -> dict[str, Any]:
    """A new tree with every field of the shape; raises InvalidInputError naming the path."""
    if not isinstance(spec, dict):
        raise InvalidInputError(f"cannot read {path}: an object is required")
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
            scalar = shape.scalars.get(key)
            if scalar is not None and type(value) is not scalar[0]:
                raise InvalidInputError(f"cannot read {path}.{key}: {scalar[1]} is required")
            result[key] = value
        else:
            result[key] = _nested(value, how, inside, f"{path}.{key}", depth + 1)
    return result


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


def _nested(value: Any, how: str, inside: ApiShape, path: str, depth: int) -> Any:
    if how == "one":
        return complete(value, inside, path, depth)
    if how == "many":
        if not isinstance(value, list):
            raise InvalidInputError(f"cannot read {path}: a list is required")
        return [
            complete(item, inside, f"{path}[{index}]", depth)
            for index, item in enumerate(value)
            if item is not None
        ]
    if not isinstance(value, dict):
        raise InvalidInputError(f"cannot read {path}: an object is required")
    return {
        key: complete(item, inside, f"{path}[{key}]", depth)
        for key, item in value.items()
        if item is not None
    }
