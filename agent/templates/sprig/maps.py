"""Sprig's functions of maps."""

from __future__ import annotations

from typing import Any

from agent.templates.helpers.lists import merge_into
from agent.templates.sprig.values import to_text
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import ANY, GoFunction, fn
from orchgit.go_templates.values import Strings, type_name

_MAP = "map[string]interface {}"


def _dict(*values: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for position in range(0, len(values), 2):
        key = to_text(values[position])
        found[key] = values[position + 1] if position + 1 < len(values) else ""
    return found


def _set(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    values[key] = value
    return values


def _unset(values: dict[str, Any], key: str) -> dict[str, Any]:
    values.pop(key, None)
    return values


def _pick(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _omit(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _merge(
    into: dict[str, Any], *others: dict[str, Any], overwrite: bool = False
) -> dict[str, Any]:
    for other in others:
        merge_into(into, other, overwrite)
    return into


def _dig(*given: Any) -> Any:
    if len(given) < 3:
        raise InvalidInputError("dig needs at least three arguments")
    *keys, default, values = given
    for key in keys:
        if not isinstance(key, str):
            raise InvalidInputError(
                f"interface conversion: interface {{}} is {type_name(key)}, not string"
            )
        if type_name(values) != _MAP:
            raise InvalidInputError(
                f"interface conversion: interface {{}} is {type_name(values)}, not {_MAP}"
            )
        if key not in values:
            return default
        values = values[key]
    return values


MAPS: dict[str, GoFunction] = {
    "dict": fn(_dict, rest=ANY),
    "get": fn(lambda values, key: values.get(key, ""), _MAP, "string"),
    "set": fn(_set, _MAP, "string", ANY),
    "unset": fn(_unset, _MAP, "string"),
    "hasKey": fn(lambda values, key: key in values, _MAP, "string"),
    "pluck": fn(
        lambda key, *maps: [each[key] for each in maps if key in each], "string", rest=_MAP
    ),
    "keys": fn(lambda *maps: Strings(key for each in maps for key in each), rest=_MAP),
    "values": fn(lambda values: list(values.values()), _MAP),
    "pick": fn(_pick, _MAP, rest="string"),
    "omit": fn(_omit, _MAP, rest="string"),
    "merge": fn(_merge, _MAP, rest=_MAP),
    "mustMerge": fn(_merge, _MAP, rest=_MAP),
    "mergeOverwrite": fn(
        lambda into, *others: _merge(into, *others, overwrite=True), _MAP, rest=_MAP
    ),
    "mustMergeOverwrite": fn(
        lambda into, *others: _merge(into, *others, overwrite=True), _MAP, rest=_MAP
    ),
    "dig": fn(_dig, ANY, rest=ANY),
}
