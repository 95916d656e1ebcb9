"""Writes a job of the API as a job file: the inverse of `parse_job`.

The table of blocks that drives decoding drives writing as well, so that a new field is written as
soon as it is read. What the defaults restore when the file is read is left out (see `shorten`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobspec.blocks.api_shape import complete, shape_of
from jobspec.blocks.table import JOB, TABLES, BlockField, BlockTable
from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import Diagnostics, JobFileErrors, SourceText
from jobspec.hcl.format import format_text
from jobspec.hcl.writer import INDENT, UnwritableError, expression, is_name, quoted
from jobspec.writing.same_job import without_additions
from jobspec.writing.shorten import shorten
from orchgit.durations import to_text
from orchgit.errors import InvalidInputError

Spec = dict[str, Any]

_SHORT_FORMS = {
    "constraint": ("version", "semver", "regexp", "set_contains"),
    "affinity": (
        "version", "semver", "regexp", "set_contains", "set_contains_all", "set_contains_any",
    ),
}  # fmt: skip
_SCALING_LABELS = {"vertical_cpu": "cpu", "vertical_mem": "mem"}
_FIRST = ("namespace", "region", "type", "datacenters", "node_pool", "priority", "driver", "count")
_LAST = {"job": "group", "group": "task"}
"""The longest blocks come last."""
_NEVER_FREE_BLOCKS = frozenset(("dynamic",))


def write_job(job: Mapping[str, Any], short: bool = True, exact: bool = True) -> str:
    """Returns the text of a job file that parses to the same job.

    `job` is API-shaped: from parse_job, a server's answer, or a model's JSON. What only servers
    set (status, indexes, versions) is not written. Not `short`: defaults are written out. Not
    `exact` (for a server's answer): null and zero are the same where the server treats them so.
    Raises InvalidInputError for anything but a job, or a job that HCL cannot express.
    """
    spec = complete(dict(job), shape_of("job"))
    if not exact:
        spec = without_additions(spec)
    if short:
        spec = shorten(spec, canonicalize if exact else to_job)
    label = spec["ID"] or spec["Name"] or ""
    shown = {**spec, "ID": None, "Name": None if spec["Name"] == label else spec["Name"]}
    try:
        lines = _block("job", JOB, shown, 0, label)
        text = "\n".join(lines) + "\n"
    except UnwritableError as error:
        raise InvalidInputError(f"cannot write job {label!r} as HCL: {error}") from None
    source = SourceText(f"{label}.nomad.hcl", text)
    diagnostics = Diagnostics(source)
    formatted = format_text(source, diagnostics)
    if formatted is None:
        raise JobFileErrors(source.name, diagnostics.found)
    return formatted


# -- blocks ------------------------------------------------------------------------------------


def _block(
    name: str, table: BlockTable, value: Spec, depth: int, label: str | None
) -> Iterator[str]:
    head = f"{INDENT * depth}{name}" + (f" {quoted(label)}" if label is not None else "")
    attributes = list(_attributes(table, value, depth + 1))
    blocks = list(_blocks(table, value, depth + 1))
    if not attributes and not blocks:
        yield f"{head} {{}}"
        return
    yield f"{head} {{"
    yield from attributes
    for number, block in enumerate(blocks):
        if number or attributes:
            yield ""
        yield from block
    yield f"{INDENT * depth}}}"


def _label_of(table: BlockTable, value: Spec) -> str | None:
    if table.label_key is None:
        return None
    if table.label_key == "-":
        return _SCALING_LABELS.get(value["Type"], value["Type"])
    return str(value[table.label_key])


def _attributes(table: BlockTable, value: Spec, depth: int) -> Iterator[str]:
    if table.name in _SHORT_FORMS:
        values: Mapping[str, str] = _short_form(table, value, depth)
    else:
        values = dict(_plain_attributes(table, value, depth))
    names = [name for name in _FIRST if name in values]
    names += [name for name in values if name not in _FIRST]
    for name in names:
        yield f"{INDENT * depth}{name} = {values[name]}"


def _plain_attributes(table: BlockTable, value: Spec, depth: int) -> Iterator[tuple[str, str]]:
    for name, field in table.attributes.items():
        if field.key not in value or name in table.blocks:
            continue
        item = value[field.key]
        if item is None or (item == table.empty.get(field.key) and not field.required):
            continue
        is_duration = field.kind == "duration"
        yield name, f'"{duration_text(item)}"' if is_duration else expression(item, depth)


def duration_text(value_ns: int) -> str:
    """Without the zeros that say nothing: 1h, not 1h0m0s."""
    text = to_text(value_ns)
    if text.endswith("m0s"):
        text = text.removesuffix("0s")
    return text.removesuffix("0m") if text.endswith("h0m") else text


def _short_form(table: BlockTable, value: Spec, depth: int) -> dict[str, str]:
    """`regexp = "..."` for an operator and its value, where there is such a form."""
    operator, target, wanted = value["Operand"], value["LTarget"], value["RTarget"]
    shown: dict[str, Any] = {}
    if operator == "distinct_hosts" and wanted in ("true", "false") and table.name == "constraint":
        shown = {"attribute": target or None, operator: wanted == "true"}
    elif operator == "distinct_property" and table.name == "constraint":
        shown = {operator: target, "value": wanted or None}
    elif operator in _SHORT_FORMS[table.name]:
        shown = {"attribute": target or None, operator: wanted}
    else:
        operator = None if operator in ("", "=") else operator
        shown = {"attribute": target or None, "operator": operator, "value": wanted or None}
    shown["weight"] = value.get("Weight")
    return {name: expression(item, depth) for name, item in shown.items() if item is not None}


def _blocks(table: BlockTable, value: Spec, depth: int) -> Iterator[list[str]]:
    last = _LAST.get(table.name, "")
    for name, field in sorted(table.blocks.items(), key=lambda pair: pair[0] == last):
        for item in _items(table, field, value):
            yield list(_written(name, field, item, depth))


def _items(table: BlockTable, field: BlockField, value: Spec) -> list[Any]:
    """The blocks of one name, after what the parser moves has been moved back."""
    found = value.get(field.key)
    if table.name == "network" and field.key in ("ReservedPorts", "DynamicPorts"):
        return _ports(value, field.key)
    if table.name == "task" and field.key == "Identities" and value.get("Identity") is not None:
        found = [value["Identity"], *(found or [])]
    if found is None:
        return []
    if field.how == "many":
        return list(found)
    if field.how == "keyed":
        return [{**item, "Name": key} for key, item in found.items()]
    return [found]


def _ports(network: Spec, key: str) -> list[Spec]:
    """All ports in `port` blocks: a port with a number is a reserved one."""
    reserved, dynamic = network["ReservedPorts"] or [], network["DynamicPorts"] or []
    if all(port["Value"] > 0 for port in reserved):
        return [*reserved, *dynamic] if key == "DynamicPorts" else []
    if dynamic:
        raise UnwritableError("a reserved port without a number beside other ports")
    return reserved if key == "ReservedPorts" else []


def _written(name: str, field: BlockField, item: Any, depth: int) -> Iterator[str]:
    if field.table is not None:
        yield from _block(name, field.table, item, depth, _label_of(field.table, item))
    elif field.how == "free":
        yield from _free(name, item, depth)
    else:
        yield from _map(name, field, item, depth)


def _map(name: str, field: BlockField, item: Mapping[str, Any], depth: int) -> Iterator[str]:
    """`meta` and similar blocks; keys that need quotes are only possible in an object."""
    outside = INDENT * depth
    if all(is_name(key) for key in item):
        if not item:
            yield f"{outside}{name} {{}}"
            return
        yield f"{outside}{name} {{"
        for key, value in item.items():
            yield f"{outside}{INDENT}{key} = {expression(value, depth + 1)}"
        yield f"{outside}}}"
    elif any(name in table.attributes and table.blocks[name] is field for table in _MAP_TABLES):
        yield f"{outside}{name} = {expression(item, depth)}"
    else:
        odd = next(key for key in item if not is_name(key))
        raise UnwritableError(f"the key {odd!r} in a block {name!r} is no name")


_MAP_TABLES = [
    table for table in TABLES.values() if any(name in table.attributes for name in table.blocks)
]


# -- blocks of anything ------------------------------------------------------------------------


def _free(name: str, item: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Lists of objects as blocks; what only an expression can say as an attribute."""
    outside, inside = INDENT * depth, INDENT * (depth + 1)
    if not item:
        yield f"{outside}{name} {{}}"
        return
    yield f"{outside}{name} {{"
    blocks: list[tuple[str, list[Any]]] = []
    for key, value in item.items():
        if not is_name(key):
            raise UnwritableError(f"the key {key!r} in a block {name!r} is no name")
        if _as_blocks(key, value):
            blocks.append((key, value))
        else:
            yield f"{inside}{key} = {_free_value(value, depth + 1)}"
    for number, (key, values) in enumerate(blocks):
        if number or len(blocks) < len(item):
            yield ""
        for each in values:
            yield from _free(key, each, depth + 1)
    yield f"{outside}}}"


def _as_blocks(key: str, value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and key not in _NEVER_FREE_BLOCKS
        and all(_is_block(each) for each in value)
    )


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_name(key) and each is not None for key, each in value.items()
    )


def _free_value(value: Any, depth: int) -> str:
    """A bare object would be read as a list of one, which parentheses prevent."""
    if isinstance(value, dict):
        return f"({expression(value, depth)})"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return expression(value[0], depth)
    return expression(value, depth)
