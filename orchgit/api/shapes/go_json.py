"""Request bodies of access control, read as Go reads them: its error texts are part of the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec

from orchgit.api.shapes.nomad_json import ZERO_TIME
from orchgit.durations import DurationError, parse_ns
from orchgit.errors import InvalidInputError
from orchgit.model.base import ns_of_rfc3339

T = TypeVar("T", bound=msgspec.Struct)
Check = Callable[[Any, str], Any]
"""Reads a value at a place (`ACLRole.Policies`). Raises InvalidInputError."""


class Fields:
    """The fields of one Go struct: keys in any case, unknown keys passed over, null is unset."""

    def __init__(self, go_type: str, fields: Mapping[str, Check]) -> None:
        self.go_type = go_type
        self._label = go_type.removeprefix("structs.").removeprefix("*structs.")
        self._fields = {name.lower(): (name, check) for name, check in fields.items()}

    def read(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields that are set, by their names in Go."""
        found = {}
        for key, item in value.items():
            known = self._fields.get(key.lower())
            if known is not None and item is not None:
                name, check = known
                found[name] = check(item, f"{self._label}.{name}")
        return found


def decode_body(data: bytes, fields: Fields) -> dict[str, Any]:
    """Reads a body that must be there."""
    if not data:
        raise InvalidInputError("Request body is empty")
    value = decode(data)
    if not isinstance(value, dict):
        kind = _kind(value)
        raise InvalidInputError(
            f"json: cannot unmarshal {kind} into Go value of type {fields.go_type}"
        )
    return fields.read(value)


def decode(data: bytes) -> Any:
    """Reads JSON; raises InvalidInputError in Go's words."""
    try:
        return msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise InvalidInputError("cannot read the request body: it is not UTF-8") from error
    except msgspec.DecodeError as error:
        raise InvalidInputError(_syntax_error(data, str(error))) from error


def _syntax_error(data: bytes, text: str) -> str:
    if "truncated" in text:
        return "unexpected EOF"
    place = _BYTE.search(text)
    at = int(place[1]) if place else 0
    character = data[at : at + 1].decode("latin-1") or " "
    return f"invalid character {character!r} looking for beginning of value"


_BYTE = re.compile(r"byte (\d+)")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def _refused(value: Any, place: str, go_type: str) -> InvalidInputError:
    return InvalidInputError(
        f"json: cannot unmarshal {_kind(value)} into Go struct field {place} of type {go_type}"
    )


def text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _refused(value, place, "string")
    return value


def flag(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise _refused(value, place, "bool")
    return value


def texts(value: Any, place: str) -> list[str]:
    if not isinstance(value, list):
        raise _refused(value, place, "[]string")
    return ["" if each is None else text(each, place) for each in value]


def text_map(value: Any, place: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _refused(value, place, "map[string]string")
    return {key: "" if each is None else text(each, place) for key, each in value.items()}


def duration(value: Any, place: str) -> int:
    """Reads Go's duration: a text, or nanoseconds."""
    if isinstance(value, str):
        try:
            return parse_ns(value) if value else 0
        except DurationError as error:
            raise InvalidInputError(f"time: {error}") from error
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def time_ns(value: Any, place: str) -> int:
    """Reads an RFC 3339 time; Go's zero time is 0."""
    given = text(value, place)
    try:
        return 0 if given == ZERO_TIME else ns_of_rfc3339(given)
    except ValueError as error:
        raise InvalidInputError(
            f'parsing time "{given}" as "2006-01-02T15:04:05Z07:00": cannot parse "{given}"'
        ) from error


def struct(fields: Fields) -> Check:
    def check(value: Any, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _refused(value, place, fields.go_type)
        return fields.read(value)

    return check


def structs(fields: Fields) -> Check:
    one = struct(fields)

    def check(value: Any, place: str) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise _refused(value, place, f"[]*{fields.go_type}")
        return [one(each, place) for each in value if each is not None]

    return check


def fields_of(kind: type[msgspec.Struct], go_type: str, **inner: Check) -> Fields:
    """Returns the fields of a struct of ours; `inner` reads those that hold structs."""
    hints = get_type_hints(kind)
    checks = {}
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        is_duration = field.name.endswith("_ns")
        checks[name] = inner.get(name) or (duration if is_duration else _CHECKS[hints[field.name]])
    return Fields(go_type, checks)


def made(kind: type[T], given: Mapping[str, Any]) -> T:
    """Returns a struct of the fields that `Fields.read` found; those with structs stay unset."""
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: given[field.encode_name]
            for field in msgspec.structs.fields(kind)
            if field.encode_name in given
            and (field.name.endswith("_ns") or hints[field.name] in _CHECKS)
        }
    )


_CHECKS: dict[Any, Check] = {
    str: text,
    bool: flag,
    list[str] | None: texts,
    dict[str, str] | None: text_map,
}
"""Readers of the plain types of fields."""
