"""Writes and reads protobuf messages as dictionaries, by tables of their fields.

Only what the Container Storage Interface uses: strings, bools, enums and integers as varints,
messages, repeated fields, and maps of strings. Unknown fields are skipped, as newer plugins send
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchgit.errors import DriverError

Message = dict[str, Any]
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_DEPTH = 16
_INT64 = 1 << 64


@dataclass(frozen=True, slots=True)
class MessageField:
    """`kind`: string, bool, int, map (of strings), or the table of a message."""

    name: str
    kind: str | Mapping[int, MessageField]
    repeated: bool = False


Table = Mapping[int, MessageField]


def encode(table: Table, message: Mapping[str, Any]) -> bytes:
    """Fields that are absent, empty or zero are left out; an empty dictionary of a message is
    written, as the choice between messages shows by it."""
    by_name = {field.name: (number, field) for number, field in table.items()}
    out = b""
    for name, value in message.items():
        number, field = by_name[name]
        if field.kind == "map":
            for key, each in value.items():
                out += _length(number, _length(1, key.encode()) + _length(2, each.encode()))
            continue
        for each in value if field.repeated else [value]:
            out += _one(number, field, each)
    return out


def _one(number: int, field: MessageField, value: Any) -> bytes:
    if isinstance(field.kind, str):
        if field.kind == "string":
            return _length(number, value.encode()) if value or field.repeated else b""
        return _varint(number << 3 | _VARINT) + _varint(int(value) % _INT64) if value else b""
    return _length(number, encode(field.kind, value)) if value is not None else b""


def _length(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(table: Table, data: bytes, depth: int = 0) -> Message:
    """Returns the fields that are there; absent strings, numbers, maps and lists have their empty
    values. Raises DriverError for data that is no message."""
    if depth > _MAX_DEPTH:
        raise DriverError("a CSI plugin answers messages that are nested too deep")
    found: Message = {
        field.name: _empty(field)
        for field in table.values()
        if isinstance(field.kind, str) or field.repeated
    }
    for number, value in _fields(data):
        field = table.get(number)
        if field is None:
            continue
        if isinstance(field.kind, str):
            read = _scalar(field, value)
            if field.kind == "map":
                found[field.name] |= read
                continue
        else:
            read = decode(field.kind, _bytes(value), depth + 1)
        if field.repeated:
            found[field.name].append(read)
        else:
            found[field.name] = read
    return found


def _empty(field: MessageField) -> Any:
    if field.repeated:
        return []
    return {"string": "", "bool": False, "int": 0, "map": {}}[str(field.kind)]


def _scalar(field: MessageField, value: int | bytes) -> Any:
    if field.kind == "string":
        return _bytes(value).decode("utf-8", "replace")
    if field.kind == "map":
        entry = decode(_ENTRY, _bytes(value))
        return {entry["key"]: entry["value"]}
    if not isinstance(value, int):
        raise DriverError("a CSI plugin answers a text where a number belongs")
    if field.kind == "bool":
        return bool(value)
    return value - _INT64 if value >= _INT64 >> 1 else value


_ENTRY: Table = {1: MessageField("key", "string"), 2: MessageField("value", "string")}


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise DriverError("a CSI plugin answers a number where a text belongs")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        if kind == _LENGTH:
            size, at = _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise DriverError("a CSI plugin answers what is no protobuf message")
        if at + size > len(data):
            raise DriverError("a CSI plugin answers a message that is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value % _INT64, at + place + 1
    raise DriverError("a CSI plugin answers what is no protobuf message")
