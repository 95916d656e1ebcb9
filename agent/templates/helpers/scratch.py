"""The function `scratch`: values that a template keeps while it is rendered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.functions import ANY, fn, text_fn
from orchgit.go_templates.values import GoStruct, NilList, sorted_keys


class Scratch(GoStruct):
    """Values that a template keeps under names while it is rendered."""

    go_type = "*template.Scratch"

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def go_method(self, name: str) -> Callable[..., Any] | None:
        return {  # type: ignore[return-value]
            "Key": text_fn(lambda key: key in self._values),
            "Get": text_fn(lambda key: self._values.get(key)),
            "Set": fn(self._set, "string", ANY),
            "SetX": fn(self._set_once, "string", ANY),
            "MapSet": fn(self._map_set, "string", "string", ANY),
            "MapSetX": fn(self._map_set_once, "string", "string", ANY),
            "MapValues": text_fn(self._map_values),
        }.get(name)

    def _set(self, key: str, value: Any) -> str:
        self._values[key] = value
        return ""

    def _set_once(self, key: str, value: Any) -> str:
        self._values.setdefault(key, value)
        return ""

    def _map(self, key: str) -> dict[str, Any]:
        found = self._values.setdefault(key, {})
        if not isinstance(found, dict):
            raise InvalidInputError(f"{quote(key)} is not a map")
        return found

    def _map_set(self, key: str, inner: str, value: Any) -> str:
        self._map(key)[inner] = value
        return ""

    def _map_set_once(self, key: str, inner: str, value: Any) -> str:
        self._map(key).setdefault(inner, value)
        return ""

    def _map_values(self, key: str) -> list[Any]:
        if key not in self._values:
            return NilList()
        values = self._map(key)
        return [values[inner] for inner in sorted_keys(values)]
