"""Whether a JSON value has the keys and kinds that were recorded; more keys are fine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KINDS = {"string": str, "bool": bool, "number": (int, float)}


def mismatches(shape: Any, value: Any, path: str = "") -> Iterator[str]:
    """One line per place that differs. Where null was recorded, anything is fine."""
    if shape == "null":
        return
    if isinstance(shape, str):
        yield from _scalar(shape, value, path)
    elif isinstance(shape, list):
        yield from _list(shape, value, path)
    else:
        yield from _object(shape, value, path)


def _scalar(shape: str, value: Any, path: str) -> Iterator[str]:
    if shape.endswith("?") and value is None:
        return
    kind = KINDS[shape.rstrip("?")]
    is_bool_for_number = isinstance(value, bool) and shape.startswith("number")
    if not isinstance(value, kind) or is_bool_for_number:
        yield f"{path or '/'}: {shape} expected, got {value!r}"


def _list(shape: list[Any], value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path or '/'}: a list expected, got {value!r}"
        return
    for item in value[:3] if shape else ():
        yield from mismatches(shape[0], item, f"{path}[]")


def _object(shape: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path or '/'}: an object expected, got {value!r}"
        return
    for key, inner in shape.items():
        if key == "<map>":
            for name, item in value.items():
                yield from mismatches(inner, item, f"{path}.{name}")
        elif key not in value:
            yield f"{path}.{key}: missing"
        else:
            yield from mismatches(inner, value[key], f"{path}.{key}")
