"""A job's driver `config` block, or an agent's `plugin` block, as a struct, with mistakes named."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from orchgit.durations import parse_length_ns
from orchgit.errors import DriverError, InvalidInputError

T = TypeVar("T", bound=msgspec.Struct)


class ConfigError(DriverError):
    """The `config` of a task, or the options of a driver, are not what the driver takes."""


def decode_config(driver: str, task: str, config: Mapping[str, object], shape: type[T]) -> T:
    """Returns `config` as `shape`; ConfigError names the unknown, missing or ill-typed key."""
    return _decode(config, shape, f"cannot use the {driver} config of task {task}")


def decode_options(driver: str, options: Mapping[str, object], shape: type[T]) -> T:
    """Returns the agent's `plugin` block of a driver; ConfigError as of `decode_config`."""
    return _decode(options, shape, f'cannot use the block plugin "{driver}"')


class OptionProblem(msgspec.Struct, frozen=True):
    """A mistake of a plugin's options; `path` leads to the key, () to the block."""

    path: tuple[str, ...]
    message: str


def option_problems(options: Mapping[str, object], shape: type[T]) -> list[OptionProblem]:
    """Returns every unknown key; without any, the first value of a wrong kind."""
    unknown: list[OptionProblem] = []
    shaped = _in_shape(dict(options), inspect.type_info(shape), (), unknown)
    if unknown:
        return unknown
    try:
        msgspec.convert(shaped, shape, strict=False)
    except msgspec.ValidationError as error:
        path = str(error).rpartition("`$.")[2].rstrip("`") if "`$." in str(error) else ""
        return [OptionProblem(tuple(path.split(".")) if path else (), str(error).replace("`", ""))]
    return []


def duration_s(text: str) -> float:
    """A duration of a driver's config in seconds; "" is none. ConfigError for anything else."""
    try:
        return parse_length_ns(text or "0") / 1e9
    except InvalidInputError as error:
        raise ConfigError(str(error)) from None


def _decode(given: Mapping[str, object], shape: type[T], refusal: str) -> T:
    unknown: list[OptionProblem] = []
    shaped = _in_shape(dict(given), inspect.type_info(shape), (), unknown)
    if unknown:
        raise ConfigError(f"{refusal}: unknown {', '.join(one.message for one in unknown)}")
    try:
        return msgspec.convert(shaped, shape, strict=False)
    except msgspec.ValidationError as error:
        missing = re.match(r"Object missing required field `(\w+)`", str(error))
        place = str(error).rpartition("`$.")[2].rstrip("`") if "`$." in str(error) else ""
        if missing:
            why = f'"{place + "." if place else ""}{missing[1]}" is required'
        else:
            why = str(error).replace("`", "")
        raise ConfigError(f"{refusal}: {why}") from None


def _in_shape(
    value: Any, wanted: inspect.Type, path: tuple[str, ...], unknown: list[OptionProblem]
) -> Any:
    """Returns `value` with each block as `wanted` has it, and adds the keys that it does not know.

    HCL gives a block as one map, or as a list of maps where it may be repeated.
    """
    if isinstance(wanted, inspect.UnionType):
        several = [one for one in wanted.types if not isinstance(one, inspect.NoneType)]
        return _in_shape(value, several[0], path, unknown) if len(several) == 1 else value
    if isinstance(wanted, inspect.StructType):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, dict):
            return value
        fields = {field.encode_name: field.type for field in wanted.fields}
        for key in value:
            if key not in fields:
                place = ".".join((*path, ""))
                near = difflib.get_close_matches(key, fields, n=1)
                hint = f' (did you mean "{place}{near[0]}"?)' if near else ""
                unknown.append(OptionProblem((*path, key), f'key "{place}{key}"{hint}'))
        return {
            key: _in_shape(one, fields[key], (*path, key), unknown)
            for key, one in value.items()
            if key in fields
        }
    if isinstance(wanted, inspect.ListType):
        if isinstance(value, dict) and isinstance(wanted.item_type, inspect.StructType):
            value = [value]
        if isinstance(value, list):
            return [_in_shape(one, wanted.item_type, path, unknown) for one in value]
    if (
        isinstance(wanted, inspect.DictType)
        and isinstance(value, list)
        and all(isinstance(one, dict) for one in value)
    ):
        return {key: one for block in value for key, one in block.items()}
    return value
