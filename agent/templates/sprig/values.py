"""How sprig turns any value into a text or a number, and what it calls empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.printing import formatted
from orchgit.go_templates.values import INVALID, GoStruct, TypedList, type_name


def to_text(value: Any) -> str:
    return value if isinstance(value, str) else formatted(value)


def to_texts(value: Any) -> list[str]:
    """The elements as texts, without nil; a single value is one element."""
    if isinstance(value, list):
        return [to_text(each) for each in value if each is not None]
    return [] if value is None or value is INVALID else [to_text(value)]


def to_int(value: Any) -> int:
    """0 for what is no number."""
    if isinstance(value, str):
        try:
            return int(value, 0) if value.strip() == value else 0
        except ValueError:
            return 0
    return int(to_float(value)) if isinstance(value, float) else int(value or 0) if isinstance(
        value, int
    ) else 0  # fmt: skip


def to_float(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return 0.0
    return float(value) if isinstance(value, int | float) else 0.0


def is_empty(value: Any) -> bool:
    """Structs never are."""
    if value is None or value is INVALID:
        return True
    return not isinstance(value, GoStruct) and not callable(value) and not value


def items_of(value: Any, name: str) -> list[Any]:
    """The elements of a list. Raises InvalidInputError for another type."""
    if not isinstance(value, list):
        raise InvalidInputError(f"Cannot {name} on type {type_kind(value)}")
    return list(value)


def type_kind(value: Any) -> str:
    if isinstance(value, TypedList | list):
        return "slice"
    return "map" if isinstance(value, Mapping) else type_name(value)
