"""What a login knows of a person or program: claims, mapped to the names that rules use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchgit.errors import RefusedError

Claims = Mapping[str, Any]
_MISSING = object()


@dataclass(frozen=True, slots=True)
class MappedClaims:
    """`value.NAME` and `list.NAME` of selectors, and `${value.NAME}` of names."""

    values: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def selectable(self) -> dict[str, Any]:
        return {"value": self.values, "list": self.lists}


def mapped(
    claims: Claims,
    claim_mappings: Mapping[str, str] | None,
    list_claim_mappings: Mapping[str, str] | None,
) -> MappedClaims:
    """Maps claims that are there to the names that rules use; claims that are missing are left out.

    A key of a mapping names a claim, or is a JSON pointer (`/a/b`). A list claim may be a single
    value. Raises RefusedError for a claim that is neither text, number nor truth value.
    """
    values, lists = {}, {}
    for source, name in (claim_mappings or {}).items():
        found = _claim(claims, source)
        if found is not _MISSING:
            values[name] = _text(found, source)
    for source, name in (list_claim_mappings or {}).items():
        found = _claim(claims, source)
        if found is not _MISSING:
            items = found if isinstance(found, list) else [found]
            lists[name] = [_text(each, source) for each in items]
    return MappedClaims(values, lists)


def _claim(claims: Claims, source: str) -> Any:
    if not source.startswith("/"):
        found = claims.get(source, _MISSING)
        return _MISSING if found is None else found
    found = claims
    for part in source[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit():
            place = int(name) if len(name) < 6 else len(found)
            found = found[place] if place < len(found) else _MISSING
        else:
            return _MISSING
    return _MISSING if found is None else found


def _text(value: Any, source: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    raise RefusedError(
        f"error converting claim '{source}' to string from unknown type "
        f"{'map[string]interface {}' if isinstance(value, Mapping) else '[]interface {}'}"
    )
