"""Builds a value of any type of the model in which no field has its default: what of it is lost on
the way shows."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

_MAX_DEPTH = 9


def filled(kind: type[Any]) -> Any:
    """Returns a struct whose every field, at any depth, is set."""
    return msgspec.convert(_filled(inspect.type_info(kind), 0), kind, strict=False)


def _filled(info: inspect.Type, depth: int) -> Any:
    match info:
        case inspect.StructType():
            fields = {
                field.encode_name: _filled(field.type, depth + 1)
                for field in info.fields
                if depth < _MAX_DEPTH or field.required
            }
            tag = {info.tag_field: info.tag} if info.tag_field else {}
            return {**tag, **fields}
        case inspect.UnionType():
            return _filled(next(one for one in info.types if not _is_none(one)), depth)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return [_filled(info.item_type, depth + 1)]
        case inspect.TupleType():
            return [_filled(one, depth + 1) for one in info.item_types]
        case inspect.DictType():
            return {_filled(info.key_type, depth + 1): _filled(info.value_type, depth + 1)}
        case inspect.EnumType():
            return list(info.cls)[-1].value
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 1.5
        case inspect.BytesType():
            return b"bytes"
        case inspect.DateTimeType():
            return "2026-11-23T22:00:00Z"
        case _:
            return "text"


def _is_none(info: inspect.Type) -> bool:
    return isinstance(info, inspect.NoneType)
