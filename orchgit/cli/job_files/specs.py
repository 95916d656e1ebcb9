"""Reads the files that describe a node pool, namespace, volume or variable, in HCL or JSON."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.job_files.job_files import read_input
from orchgit.durations import parse_length_ns
from orchgit.errors import InvalidInputError
from orchgit.hcl1.parse import parse
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, ListValue, Literal, Value, bodies_of

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", 1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}iB": 1024**_power, _letter: 1024**_power}


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """A key of a file: its name in the API, and how its value is read. `many`: blocks of this name
    make up a list."""

    name: str
    read: Callable[[Value], Any] | Mapping[str, SpecEntry]
    many: bool = False


def plain_value(value: Value) -> Any:
    """Returns a value of HCL as JSON has it."""
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, ListValue):
        return [plain_value(each) for each in value.items]
    return {item.name: plain_value(next(bodies_of(item, 1), item.value)) for item in value.items}


def text_map(value: Value) -> dict[str, str]:
    """Returns a block or map of texts; numbers are written as in the file."""
    return {
        item.name: item.value.text
        for item in (value.items if isinstance(value, Hcl1Body) else ())
        if isinstance(item.value, Literal)
    }


def duration_ns(value: Value) -> int:
    return parse_length_ns(str(plain_value(value)))


def size_bytes(value: Value) -> int:
    """Returns a size such as "10GiB" in bytes. Raises InvalidInputError."""
    text = str(plain_value(value)).strip()
    digits = text.rstrip("BKMGTPi ")
    unit = text[len(digits) :].strip()
    try:
        return int(float(digits) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise InvalidInputError(f"cannot read the size {text!r}: write it like 10GiB") from None


def read_spec(
    path: str, entries: Mapping[str, SpecEntry], block: str = "", as_json: bool = False
) -> list[dict[str, Any]]:
    """Returns what a file (`-`: standard input) describes, in the API's form.

    `block`: the name of the blocks to read, whose labels are their names; without it the whole file
    is one. JSON has the API's form already. Raises InvalidInputError with the place of a mistake.
    """
    text = read_input(path).decode("utf-8", "replace")
    shown = "<stdin>" if path == "-" else path
    if as_json or text.lstrip().startswith("{"):
        return [_json_object(text, shown)]
    body = parse(text, shown)
    if not block:
        return [_object(body, entries)]
    found = [
        {**_object(each.body, entries), "Name": each.label.text}
        for each in body.labelled(block)
        if each.label
    ]
    others = [item for item in body.items if item.name != block]
    if others or not found:
        place = others[0].position if others else body.position
        raise InvalidInputError(f'cannot read {place}: a block {block} "name" {{ is expected')
    return found


def _json_object(text: str, shown: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"cannot read {shown} as JSON: {error}") from error
    if not isinstance(data, dict):
        raise ApiError(f"cannot use {shown}: a JSON object is expected")
    return data


def _object(body: Hcl1Body, entries: Mapping[str, SpecEntry]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for item in body.items:
        entry = entries.get(item.name)
        if entry is None:
            near = difflib.get_close_matches(item.name, entries, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(sorted(entries))}"
            raise InvalidInputError(
                f"cannot read {item.position}: unknown key {item.name!r}: {hint}"
            )
        for value in _values(item, entry):
            if entry.many:
                result.setdefault(entry.name, []).append(value)
            else:
                result[entry.name] = value
    return result


def _values(item: Hcl1Item, entry: SpecEntry) -> list[Any]:
    try:
        if isinstance(entry.read, Mapping):
            entries = entry.read
            return [_object(body, entries) for body in bodies_of(item, 1)]
        value = next(bodies_of(item, 1), item.value)
        return [entry.read(value)]
    except InvalidInputError as error:
        if str(error).startswith(f"cannot read {item.position.file}"):
            raise
        raise InvalidInputError(f"{item.position}: {error}") from error
