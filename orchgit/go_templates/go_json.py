"""JSON as Go's encoding/json writes and reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.printing import float_text, shortest
from orchgit.go_templates.values import AnyMap, GoStruct, is_nil, to_bytes, type_name

_ESCAPED = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f",
    "\u2028": "\\u2028", "\u2029": "\\u2029",
}  # fmt: skip
_FOR_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def to_json(value: object, indent: str = "", for_html: bool = True) -> str:
    """Raises InvalidInputError for what JSON does not have."""
    parts: list[str] = []
    _Writer(parts, indent, for_html).write(value, "")
    return "".join(parts)


def from_json(text: str) -> Any:
    """Numbers are float64. Raises InvalidInputError with Go's reason."""
    try:
        return json.loads(
            text,
            parse_int=float,
            parse_constant=_no_constant,
            object_pairs_hook=dict,
        )
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        if not rest.strip():
            raise InvalidInputError("unexpected end of JSON input") from None
        raise InvalidInputError(
            f"invalid character '{rest.lstrip()[0]}' {_place(error.msg)}"
        ) from None
    except RecursionError:
        raise InvalidInputError("exceeded max depth") from None


def _no_constant(name: str) -> Any:
    raise InvalidInputError(f"invalid character '{name[0]}' looking for beginning of value")


def _place(message: str) -> str:
    if message.startswith("Extra data"):
        return "after top-level value"
    if message.startswith("Expecting property name"):
        return "looking for beginning of object key string"
    if message.startswith("Expecting ':'"):
        return "after object key"
    return "looking for beginning of value"


class _Writer:
    def __init__(self, parts: list[str], indent: str, for_html: bool) -> None:
        self._parts = parts
        self._indent = indent
        self._escaped = {**_ESCAPED, **(_FOR_HTML if for_html else {})}

    def write(self, value: object, line: str) -> None:
        if isinstance(value, GoStruct):
            value = value.go_json()
        if is_nil(value):
            self._parts.append("null")
        elif isinstance(value, str):
            self._parts.append(self._text(value))
        elif isinstance(value, bool):
            self._parts.append("true" if value else "false")
        elif isinstance(value, float):
            self._parts.append(_number(value))
        elif isinstance(value, int):
            self._parts.append(str(int(value)))
        elif isinstance(value, list) and type_name(value) != "<-chan int64":
            self._sequence("[]", [(None, each) for each in value], line)
        elif isinstance(value, Mapping) and not isinstance(value, AnyMap):
            pairs = sorted(value.items(), key=lambda pair: to_bytes(str(pair[0])))
            self._sequence("{}", [(str(name), each) for name, each in pairs], line)
        else:
            raise InvalidInputError(f"json: unsupported type: {type_name(value)}")

    def _sequence(self, ends: str, items: list[tuple[str | None, object]], line: str) -> None:
        self._parts.append(ends[0])
        inner = line + self._indent
        for position, (name, value) in enumerate(items):
            if position:
                self._parts.append(",")
            if self._indent:
                self._parts.append(f"\n{inner}")
            if name is not None:
                self._parts.append(f"{self._text(name)}:{' ' if self._indent else ''}")
            self.write(value, inner)
        if items and self._indent:
            self._parts.append(f"\n{line}")
        self._parts.append(ends[1])

    def _text(self, text: str) -> str:
        parts = []
        for character in text:
            if character in self._escaped:
                parts.append(self._escaped[character])
            elif character < " ":
                parts.append(f"\\u{ord(character):04x}")
            elif "\ud800" <= character <= "\udfff":
                parts.append("\\ufffd")
            else:
                parts.append(character)
        return f'"{"".join(parts)}"'


def _number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        raise InvalidInputError(f"json: unsupported value: {float_text(value)}")
    _, exponent = shortest(value)
    if value == 0 or -6 <= exponent < 21:
        return float_text(value, "f")
    text = float_text(value, "e")
    return f"{text[:-2]}{text[-1]}" if text[-4:-1] == "e-0" else text
