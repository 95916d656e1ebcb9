"""JSON as Nomad's clients write and read it: keys in any case in, Go's names out."""

from __future__ import annotations

import base64
import hashlib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from orchgit.api.shapes import go_syntax, go_types
from orchgit.api.shapes.shown import shown
from orchgit.durations import DurationError, parse_ns
from orchgit.errors import InvalidInputError
from orchgit.whole_number import MOST

T = TypeVar("T")

ZERO_TIME = "0001-01-01T00:00:00Z"
"""How Go writes a time that is not set."""

_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: value.to_json())


class Raw:
    """Encoded JSON, to be put into an answer as it is."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def to_json(self) -> msgspec.Raw:
        return msgspec.Raw(self._data)


def encode(value: Any) -> bytes:
    return _ENCODER.encode(shown(value))


def tree(value: Any) -> Any:
    """Returns a struct as the dicts and lists of its JSON, by the same rules as in an answer."""
    return msgspec.to_builtins(shown(value))


def decode_tree(data: bytes, go_type: str = "") -> dict[str, Any]:
    """Returns a JSON object as it was sent. Raises InvalidInputError for anything else."""
    if not data:
        raise InvalidInputError("Request body is empty")
    value = go_syntax.decode(data)
    if value is None:
        raise InvalidInputError("cannot read the request body: it is null; send an object")
    if not isinstance(value, dict):
        wanted = go_type or "structs.Request"
        raise InvalidInputError(
            f"json: cannot unmarshal {go_types.kind_of(value)} into Go value of type {wanted}"
        )
    return value


def decode(data: bytes, kind: type[T]) -> T:
    """Reads a struct from a request body: keys in any case, unknown keys ignored, null means
    absent. Raises InvalidInputError, also for an empty body: it would set everything to its
    default."""
    return convert(decode_tree(data, go_types.type_name(kind)), kind)


def convert(value: Any, kind: type[T], above: str = "") -> T:
    """Returns the struct of a tree; `above` leads to the tree in the body (`Volume.`)."""
    try:
        return msgspec.convert(fold_keys(value, kind), kind, strict=True)
    except msgspec.ValidationError as error:
        problem = go_types.conversion_problem(error, kind, above)
        raise InvalidInputError(problem) from error


def check_names_any(body: Mapping[str, Any], kind: type[msgspec.Struct], what: str) -> None:
    """Raises InvalidInputError for a body without any setting, which would reset all of them."""
    if not any(key.lower() in _fields_of(kind) for key in body):
        raise InvalidInputError(
            f"cannot set {what}: the body has none of its settings; read it, change what you want, "
            "and send it whole"
        )


def get(value: Any, name: str, default: Any = None, kind: type | None = None) -> Any:
    """Returns the value of a key in any case; null counts as absent.

    Raises InvalidInputError if `value` is no object, and for a value that is not of the default's
    type (or of `kind`, where there is no default).
    """
    found = _found(value, name)
    if found is None:
        return default
    wanted = kind or type(default)
    if wanted in _KINDS and not _is_of(found, wanted):
        raise InvalidInputError(f"cannot read the request body: {name} must be {_KINDS[wanted]}")
    return found


def get_texts(value: Any, name: str) -> list[str]:
    """Returns a key's list of texts; empty where the key is absent."""
    found: list[Any] = get(value, name, [])
    if not all(isinstance(each, str) for each in found):
        raise InvalidInputError(f"cannot read the request body: {name} must be a list of texts")
    return found


_KINDS = {
    bool: "true or false",
    int: "a whole number of at most 64 bits",
    str: "a text",
    list: "a list",
    dict: "an object",
}


def _is_of(found: Any, kind: type) -> bool:
    if kind is int:
        return type(found) is int and -MOST <= found <= MOST
    return isinstance(found, kind)


def _found(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidInputError(
            f"cannot read the request body: {name} is expected in an object, which is not there"
        )
    found = value.get(name)
    if found is not None:
        return found
    lower = name.lower()
    return next(
        (each for key, each in value.items() if each is not None and key.lower() == lower), None
    )


def fold_keys(value: Any, kind: Any) -> Any:
    """Returns `value` with the keys of every struct in `kind` in their own spelling.

    Keys of maps (meta, env, a driver's config) belong to the user and are left alone. A null is
    dropped where the field cannot hold one, so that its default applies.
    """
    kind = _bare(kind)
    if not _holds_structs(kind):
        return value
    if isinstance(value, list) and get_origin(kind) is list:
        (item_kind,) = get_args(kind)
        return [fold_keys(item, item_kind) for item in value]
    if isinstance(value, dict) and get_origin(kind) is dict:
        item_kind = get_args(kind)[1]
        return {key: fold_keys(item, item_kind) for key, item in value.items()}
    if isinstance(value, dict) and isinstance(kind, type):
        return _folded(value, _fields_of(kind))
    return value


def _folded(value: dict[str, Any], known: dict[str, _Field]) -> dict[str, Any]:
    folded = {}
    for key, item in value.items():
        field = known.get(key.lower())
        if field is None:
            continue
        if item is None and not field.nullable:
            continue
        if field.is_namespace and item == "":
            continue
        if field.is_duration and isinstance(item, str):
            item = _duration_ns(field.name, item)
        folded[field.name] = item if field.inner is None else fold_keys(item, field.inner)
    return folded


def _duration_ns(name: str, text: str) -> int:
    """Reads a duration as clients in Go write it ("24h0m0s"); an unset one is ""."""
    try:
        return parse_ns(text) if text else 0
    except DurationError as error:
        raise InvalidInputError(f"cannot read {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    """Its own spelling."""
    inner: Any
    """Its type, where that holds structs."""
    nullable: bool
    is_namespace: bool
    """An empty namespace means that the request names none, so that the default applies."""
    is_duration: bool


@cache
def _fields_of(kind: type[msgspec.Struct]) -> dict[str, _Field]:
    """Returns the fields by their keys in lower case."""
    hints = get_type_hints(kind)
    return {
        field.encode_name.lower(): _Field(
            name=field.encode_name,
            inner=hint if _holds_structs(_bare(hint)) else None,
            nullable=type(None) in get_args(hint),
            is_namespace=field.name == "namespace",
            is_duration=field.name.endswith("_ns"),
        )
        for field in msgspec.structs.fields(kind)
        for hint in (hints[field.name],)
    }


@cache
def _holds_structs(kind: Any) -> bool:
    """Returns whether values of this type have keys to fold."""
    if get_origin(kind) in (list, dict):
        return _holds_structs(_bare(get_args(kind)[-1]))
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@cache
def _bare(kind: Any) -> Any:
    """Returns the type without `| None`."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [each for each in get_args(kind) if each is not type(None)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def content_hash(*parts: Any) -> str:
    """Returns a hash of the content: base64, as Go writes bytes."""
    return text_hash(msgspec.json.encode(parts, order="sorted").decode())


def text_hash(*parts: str) -> str:
    """Returns a hash of the texts, one after the other: base64, as Go writes bytes."""
    digest = hashlib.blake2b("".join(parts).encode(), digest_size=32)
    return base64.b64encode(digest.digest()).decode()


def in_order(meta: Mapping[str, str] | None) -> Iterator[str]:
    """Yields keys and values in the order in which Nomad hashes them."""
    for key in sorted(meta or {}):
        yield from (key, (meta or {})[key])
