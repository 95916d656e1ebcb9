"""A job's driver `config` block as a struct, with every mistake named."""

from __future__ import annotations

import difflib
import re
from typing import TypeVar

import msgspec

from orchgit.durations import parse_length_ns
from orchgit.errors import DriverError, InvalidInputError

T = TypeVar("T", bound=msgspec.Struct)


class ConfigError(DriverError):
    """The `config` of a task is not what its driver takes."""


def decode_config(driver: str, task: str, config: dict[str, object], shape: type[T]) -> T:
    """Returns `config` as `shape`; ConfigError names the unknown, missing or ill-typed key."""
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    unknown = [key for key in config if key not in known]
    if unknown:
        hints = []
        for key in unknown:
            near = difflib.get_close_matches(key, known, n=1)
            hints.append(f'key "{key}"' + (f' (did you mean "{near[0]}"?)' if near else ""))
        raise ConfigError(
            f"cannot use the {driver} config of task {task}: unknown {', '.join(hints)}"
        )
    try:
        return msgspec.convert(config, shape, strict=False)
    except msgspec.ValidationError as error:
        missing = re.match(r"Object missing required field `(\w+)`", str(error))
        why = f'"{missing[1]}" is required' if missing else str(error).replace("`", "")
        raise ConfigError(f"cannot use the {driver} config of task {task}: {why}") from None


def duration_s(text: str) -> float:
    """A duration of a driver's config in seconds; "" is none. DriverError for anything else."""
    try:
        return parse_length_ns(text or "0") / 1e9
    except InvalidInputError as error:
        raise DriverError(str(error)) from None


def labelled(value: dict[str, str] | list[dict[str, str]]) -> dict[str, str]:
    """A block of free keys: HCL gives one map, or a list of maps where the block is repeated."""
    maps = [value] if isinstance(value, dict) else value
    return {key: text for one in maps for key, text in one.items()}
