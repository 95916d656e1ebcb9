"""Request bodies, read as Go reads them: its error texts are part of the API."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from orchgit.api.shapes.go_types import described, kind_of, type_problem
from orchgit.api.shapes.nomad_json import ZERO_TIME, decode_tree
from orchgit.durations import DurationError, parse_ns
from orchgit.errors import InvalidInputError
from orchgit.model.base import ns_of_rfc3339

T = TypeVar("T", bound=msgspec.Struct)


class FieldPlace(NamedTuple):
    """Where in a body a value stands: the innermost struct, and the fields that lead there."""

    struct: str
    path: str

    def __str__(self) -> str:
        return f"{self.struct}.{self.path}"


Check = Callable[[Any, FieldPlace], Any]
"""Reads a value at a place. Raises InvalidInputError."""


class Fields:
    """The fields of one Go struct: keys in any case, unknown keys passed over, null is unset."""

    def __init__(self, go_type: str, fields: Mapping[str, Check]) -> None:
        self.go_type = go_type
        package, _, label = go_type.lstrip("*").partition(".")
        self._above = ""
        """The fields that lead to this struct, where it is read by itself."""
        if label.startswith("."):
            label, self._above = "", f"{label[1:]}."
        self._label = label or ("" if self._above else package)
        self._fields = {name.lower(): (name, check) for name, check in fields.items()}

    def read(self, value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
        """Returns the fields that are set, by their names in Go."""
        found = {}
        for key, item in value.items():
            known = self._fields.get(key.lower())
            if known is not None and item is not None:
                name, check = known
                found[name] = check(item, FieldPlace(self._label, (self._above or above) + name))
        return found


def decode_body(data: bytes, fields: Fields) -> dict[str, Any]:
    """Reads a body that must be there."""
    return fields.read(decode_tree(data, fields.go_type))


def refused(value: Any, place: FieldPlace, go_type: str) -> InvalidInputError:
    """Returns the error of a value that is not of the field's type."""
    return InvalidInputError(type_problem(kind_of(value), place, go_type))


def text_type(go_type: str) -> Check:
    """Reads a text of a type of its own."""

    def check(value: Any, place: FieldPlace) -> str:
        if not isinstance(value, str):
            raise refused(value, place, go_type)
        return value

    return check


def flag(value: Any, place: FieldPlace) -> bool:
    if not isinstance(value, bool):
        raise refused(value, place, "bool")
    return value


def whole(go_type: str) -> Check:
    """Reads a whole number of a type: `int`, `uint64`, `time.Duration` and the like."""
    least, most = _RANGES.get(go_type, _RANGES["int"])

    def check(value: Any, place: FieldPlace) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refused(value, place, go_type)
        if isinstance(value, float) or not least <= value <= most:
            raise InvalidInputError(type_problem(described(value, True), place, go_type))
        return value

    return check


_RANGES = {
    "int": (-(1 << 63), (1 << 63) - 1),
    "uint": (0, (1 << 64) - 1),
    "uint64": (0, (1 << 64) - 1),
}


text = text_type("string")


def texts(value: Any, place: FieldPlace) -> list[str]:
    if not isinstance(value, list):
        raise refused(value, place, "[]string")
    return ["" if each is None else text(each, place) for each in value]


def text_map(value: Any, place: FieldPlace) -> dict[str, str]:
    if not isinstance(value, dict):
        raise refused(value, place, "map[string]string")
    return {key: "" if each is None else text(each, place) for key, each in value.items()}


def embedded(struct_name: str, check: Check) -> Check:
    """Reads a field of a struct that is embedded in this one."""
    return lambda value, place: check(value, place._replace(path=f"{struct_name}.{place.path}"))


def tree(go_type: str) -> Check:
    """Reads an object whose keys are read elsewhere."""

    def check(value: Any, place: FieldPlace) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refused(value, place, go_type)
        return value

    return check


def trees(go_type: str) -> Check:
    """Reads a list of objects whose keys are read elsewhere."""
    return _list_of(tree(go_type), go_type)


any_map = tree("map[string]interface {}")


def base64_bytes(value: Any, place: FieldPlace) -> bytes:
    """Reads bytes as Go writes them: base64 with padding."""
    if not isinstance(value, str):
        raise refused(value, place, "[]uint8")
    joined = _NEWLINES.sub("", value)
    if _BASE64.fullmatch(joined) is None:
        raise InvalidInputError(f"illegal base64 data at input byte {_illegal_base64_at(value)}")
    return base64.b64decode(joined)


def _illegal_base64_at(given: str) -> int:
    """Returns the place of the first character that cannot be there, as Go counts."""
    digits, missing = 0, 0  # missing: how many "=" must follow one that was read
    for at, character in enumerate(given):
        if character in "\r\n":
            continue
        if missing:
            if character != "=":
                return at - 1
            missing, digits = 0, -1
        elif digits < 0:
            return at
        elif character in _OF_BASE64:
            digits += 1
        elif character == "=" and digits % 4 >= 2:
            missing, digits = (1, digits) if digits % 4 == 2 else (0, -1)
        else:
            return at
    return len(given) if missing or digits < 0 else len(given) - digits % 4


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NEWLINES = re.compile(r"[\r\n]")
_OF_BASE64 = frozenset(string.ascii_letters + string.digits + "+/")


def duration(value: Any, place: FieldPlace) -> int:
    """Reads Go's duration: a text, or nanoseconds."""
    if isinstance(value, str):
        try:
            return parse_ns(value) if value else 0
        except DurationError as error:
            raise InvalidInputError(f"time: {error}") from error
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def time_ns(value: Any, place: FieldPlace) -> int:
    """Reads an RFC 3339 time; Go's zero time is 0."""
    given = text(value, place)
    try:
        return 0 if given == ZERO_TIME else ns_of_rfc3339(given)
    except ValueError as error:
        raise InvalidInputError(
            f'parsing time "{given}" as "2006-01-02T15:04:05Z07:00": cannot parse "{given}"'
        ) from error


def struct(fields: Fields) -> Check:
    def check(value: Any, place: FieldPlace) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refused(value, place, fields.go_type)
        return fields.read(value, f"{place.path}.")

    return check


def structs(fields: Fields) -> Check:
    return _list_of(struct(fields), fields.go_type)


def _list_of(one: Check, go_type: str) -> Check:
    def check(value: Any, place: FieldPlace) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise refused(value, place, f"[]*{go_type}")
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
