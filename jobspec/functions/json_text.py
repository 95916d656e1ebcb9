"""JSON in and out of HCL's values, written as Go writes it."""

from __future__ import annotations

import json
import re
from typing import Any

from jobspec.evaluation import numbers
from jobspec.evaluation.numbers import NULL, Number
from jobspec.evaluation.values import Value, elements, is_null, mapping
from jobspec.functions.signature import FunctionError

_ESCAPED = re.compile(r'["\\<>&\x00-\x1f\u2028\u2029]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def quote(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(m: re.Match[str]) -> str:
    return _SHORT.get(m[0]) or f"\\u{ord(m[0]):04x}"


def encode(value: Value) -> str:
    if type(value) is str:
        return quote(value)
    if is_null(value):
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    items = elements(value)
    if items is not None:
        return f"[{','.join(encode(item) for item in items)}]"
    pairs = mapping(value)
    if pairs is not None:
        return f"{{{','.join(f'{quote(k)}:{encode(pairs[k])}' for k in sorted(pairs))}}}"
    if isinstance(value, float):
        raise FunctionError("cannot serialize infinity as JSON")
    return numbers.to_text(value)


def decode(text: str) -> Value:
    if not text.strip():
        raise FunctionError("EOF")
    try:
        decoder = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=_refuse)
        stripped = text.lstrip(" \t\r\n")
        value, end = decoder.raw_decode(stripped)
    except (ValueError, RecursionError) as error:
        raise FunctionError(str(error)) from None
    if stripped[end:].strip(" \t\r\n"):
        raise FunctionError("extraneous data after JSON object")
    return from_plain(value)


def _number(text: str) -> Number:
    number = numbers.parse(text)
    if number is None:
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"invalid character {text[0]!r} looking for beginning of value")


def from_plain(value: Any) -> Value:
    """Python's lists, dicts and None as HCL's tuples, objects and null."""
    if value is None:
        return NULL
    if isinstance(value, list):
        return tuple(from_plain(item) for item in value)
    if isinstance(value, dict):
        return {str(key): from_plain(item) for key, item in value.items()}
    return value
