"""Converts values to the plain types of the API: strings, integers, durations, lists."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from jobspec.evaluation.numbers import NegativeZero, Null, to_float
from jobspec.evaluation.values import (
    ConvertError,
    Value,
    elements,
    mapping,
    to_bool,
    to_number,
    to_string,
    type_name_of,
)
from orchgit.durations import DurationError, parse_ns

_INT64 = 1 << 63


def string(value: Value) -> str:
    return value if type(value) is str else to_string(value)


def _integer(low: int, high: int) -> Callable[[Value], int]:
    def convert(value: Value) -> int:
        number = value if type(value) is int else to_number(value) or 0
        if type(number) is not int or not low <= number <= high:
            raise ConvertError(f"value must be a whole number, between {low} and {high}")
        return number

    return convert


def duration(value: Value) -> int:
    """Text in Go's notation, or a bare number of nanoseconds."""
    if type(value) is str:
        try:
            return parse_ns(value)
        except DurationError as error:
            raise ConvertError(str(error)) from None
    if type(value) is bool or elements(value) is not None or mapping(value) is not None:
        raise ConvertError(f'a duration such as "30s" is required, but have {type_name_of(value)}')
    return integer(value)


def strings(value: Value) -> list[str]:
    if type(value) is tuple:
        items: Any = value
    else:
        items = elements(value)
    if items is None:
        raise ConvertError(f"list of string required, but have {type_name_of(value)}")
    result = []
    for item in items:
        if type(item) is Null:
            raise ConvertError("null value is not allowed")
        result.append(item if type(item) is str else to_string(item))
    return result


def _uint16s(value: Value) -> list[int]:
    items = elements(value)
    if items is None:
        raise ConvertError(f"list of number required, but have {type_name_of(value)}")
    return [_uint16(item) for item in items]


integer = _integer(-_INT64, _INT64 - 1)
_uint16 = _integer(0, 65535)

CONVERTERS: dict[str, Callable[[Value], Any]] = {
    "string": string,
    "bool": to_bool,
    "int": integer,
    "int8": _integer(-128, 127),
    "uint8": _integer(0, 255),
    "uint16": _uint16,
    "uint32": _integer(0, (1 << 32) - 1),
    "uint64": _integer(0, (1 << 64) - 1),
    "duration": duration,
    "strings": strings,
    "uint16s": _uint16s,
}


def plain(value: Value) -> Any:
    """Any value as JSON has it: whole numbers that fit 64 bits as int, others as float."""
    kind = type(value)
    if kind is str or kind is bool:
        return value
    if kind is int:
        return value if -_INT64 <= value < _INT64 else to_float(value)
    if kind is Fraction:
        return to_float(value)
    if kind is NegativeZero:
        return 0
    if kind is float:
        raise ConvertError("an infinite number cannot be written as JSON")
    if kind is Null:
        return None
    items = elements(value)
    if items is not None:
        return [plain(item) for item in items]
    pairs = mapping(value)
    assert pairs is not None
    return {key: plain(pairs[key]) for key in sorted(pairs)}


def string_map(value: Value) -> dict[str, str]:
    pairs = mapping(value)
    if pairs is None:
        raise ConvertError(f"map of string required, but have {type_name_of(value)}")
    result = {}
    for key in sorted(pairs):
        item = pairs[key]
        if type(item) is Null:
            raise ConvertError(f'null value is not allowed, at key "{key}"')
        result[key] = item if type(item) is str else to_string(item)
    return result
