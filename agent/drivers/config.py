"""A job's driver `config` block, or an agent's `plugin` block, as a struct, with mistakes named."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from orchgit.durations import parse_length_ns
from orchgit.errors import DriverError, InvalidInputError

T = TypeVar("T", bound=msgspec.Struct)


class ConfigError(DriverError):
    """The `config` of a task, or the options of a driver, are not what the driver takes."""


_NO_CONFIG = (
    "Root value must be object: The root value in a JSON-based configuration must be either a JSON "
    "object or a JSON array of objects."
)


class TaskConfigError(ConfigError):
    """The `config` of a task has these problems. The message has the recorded words."""

    def __init__(self, driver: str, task: str, problems: Sequence[str], short: str = "") -> None:
        listed = "".join(f"\t* {problem}\n" for problem in problems)
        super().__init__(
            f"{len(problems) + 1} errors occurred:\n\t* failed to parse config: \n{listed}\n"
        )
        said = short or " ".join(problems)
        self.short = f"cannot use the {driver} config of task {task}: {said}"
        """The same in one line, for people who do not look at the task."""


def decode_config(
    driver: str,
    task: str,
    config: Mapping[str, object],
    shape: type[T],
    refused: Mapping[str, str] = MappingProxyType({}),
) -> T:
    """Returns `config` as `shape`; TaskConfigError names the unknown, missing or ill-typed keys.

    `refused`: keys that a reader may expect, and why they are not there.
    """
    for key, why in refused.items():
        if key in config:
            raise ConfigError(f"cannot use {key} in the {driver} config of task {task}: {why}")
    try:
        return _decode(config, shape)
    except _MisfitError as error:
        problems = [misfit.as_hcl for misfit in error.misfits] if config else [_NO_CONFIG]
        raise TaskConfigError(driver, task, problems, error.short) from None


def decode_options(driver: str, options: Mapping[str, object], shape: type[T]) -> T:
    """Returns the agent's `plugin` block of a driver; ConfigError as of `decode_config`."""
    try:
        return _decode(options, shape)
    except _MisfitError as error:
        raise ConfigError(f'cannot use the block plugin "{driver}": {error.short}') from None


class OptionProblem(msgspec.Struct, frozen=True):
    """A mistake of a plugin's options; `path` leads to the key, () to the block."""

    path: tuple[str, ...]
    message: str


def option_problems(options: Mapping[str, object], shape: type[T]) -> list[OptionProblem]:
    """Returns every unknown key; without any, the first value of a wrong kind."""
    try:
        _decode(options, shape)
    except _MisfitError as error:
        return [OptionProblem(misfit.path, misfit.as_option) for misfit in error.misfits]
    return []


def duration_s(text: str) -> float:
    """A duration of a driver's config in seconds; "" is none. ConfigError for anything else."""
    try:
        return parse_length_ns(text or "0") / 1e9
    except InvalidInputError as error:
        raise ConfigError(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Misfit:
    """One thing that is wrong with a block. `expected` "": the key is unknown, or missing."""

    path: tuple[str, ...]
    is_unknown: bool = False
    near: str = ""
    expected: str = ""
    found: str = ""

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def as_hcl(self) -> str:
        if self.is_unknown:
            hint = f' Did you mean "{self.near}"?' if self.near else ""
            return f'Invalid label: No argument or block type is named "{self.key}".{hint}'
        if not self.expected:
            return (
                f'Missing required argument: The argument "{self.key}" is required, but no '
                "definition was found."
            )
        return (
            "Incorrect attribute value type: Inappropriate value for attribute "
            f'"{self.key}": {_HCL_TYPES.get(self.expected, self.expected)} required'
            + (f", but have {_HCL_VALUES.get(self.found, self.found)}." if self.found else ".")
        )

    @property
    def as_option(self) -> str:
        if self.is_unknown:
            hint = f' (did you mean "{self.near}"?)' if self.near else ""
            return f'key "{self.key}"{hint}'
        if not self.expected:
            return f'"{self.key}" is required'
        found = f", got {self.found}" if self.found else ""
        return f"Expected {self.expected}{found} - at $.{self.key}"


_HCL_TYPES = {
    "str": "string",
    "int": "number",
    "float": "number",
    "array": "list of string",
    "object": "map of string",
}
_HCL_VALUES = {"array": "tuple", "str": "string", "int": "number", "float": "number"}
_WRONG_TYPE = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?")
_MISSING = re.compile(r"Object missing required field `(\w+)`")


class _MisfitError(Exception):
    def __init__(self, misfits: Sequence[_Misfit]) -> None:
        super().__init__(misfits)
        self.misfits = misfits

    @property
    def short(self) -> str:
        found = [misfit.as_option for misfit in self.misfits]
        return f"unknown {', '.join(found)}" if self.misfits[0].is_unknown else found[0]


def _decode(given: Mapping[str, object], shape: type[T]) -> T:
    unknown: list[_Misfit] = []
    shaped = _in_shape(dict(given), inspect.type_info(shape), (), unknown)
    if unknown:
        raise _MisfitError(unknown)
    try:
        return msgspec.convert(shaped, shape, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        path = text.rpartition("`$.")[2].rstrip("`") if "`$." in text else ""
        place = tuple(path.split(".")) if path else ()
        if missing := _MISSING.match(text):
            misfit = _Misfit((*place, missing[1]))
        elif wrong := _WRONG_TYPE.match(text):
            misfit = _Misfit(place, expected=wrong[1], found=wrong[2] or "")
        else:
            misfit = _Misfit(place, expected=text.replace("`", ""))
        raise _MisfitError([misfit]) from None


def _in_shape(
    value: Any, wanted: inspect.Type, path: tuple[str, ...], unknown: list[_Misfit]
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
                near = [
                    ".".join((*path, each)) for each in difflib.get_close_matches(key, fields, n=1)
                ]
                unknown.append(_Misfit((*path, key), is_unknown=True, near="".join(near)))
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
