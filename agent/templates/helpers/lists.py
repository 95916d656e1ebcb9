"""consul-template's functions of lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn
from orchgit.go_templates.printing import formatted
from orchgit.go_templates.values import (
    INVALID,
    AnyMap,
    GoStruct,
    TypedList,
    plain,
    sorted_keys,
    type_name,
)

_LIST = "[]interface {}"
_MAP = "map[string]interface {}"


class KeyPairs(TypedList):
    """Entries of Consul's key-value store."""

    go_type = "[]*dependency.KeyPair"


class HealthServices(TypedList):
    """Services of Consul."""

    go_type = "[]*dependency.HealthService"


def is_in(values: Any, value: Any) -> bool:
    values, value = plain(values), plain(value)
    if isinstance(values, str):
        return isinstance(value, str) and value in values
    if not isinstance(values, list):
        return False
    return any(_same(plain(each), value) for each in values)


def _same(each: Any, value: Any) -> bool:
    if isinstance(each, bool) or isinstance(value, bool):
        return False
    for kind in (str, int, float):
        if isinstance(each, kind):
            return isinstance(value, kind) and each == value
    return False


def _of(test: Callable[[int, int], bool]) -> GoFunction:
    """A function of (wanted, values); `test` gets how many are there, and how many are wanted."""

    def check(wanted: list[Any], values: Any) -> bool:
        return test(sum(is_in(values, each) for each in wanted), len(wanted))

    return fn(check, _LIST, ANY)


def merge_into(into: dict[str, Any], other: Mapping[str, Any], overwrite: bool = False) -> None:
    """Adds the entries of `other` that `into` does not have, or has empty; with `overwrite` all of
    them. Maps that both have are merged."""
    for key, value in other.items():
        known = into.get(key)
        if type(value) is dict and type(known) is dict:
            merge_into(known, value, overwrite)
        elif overwrite or (value is not None and not (known or isinstance(known, GoStruct))):
            into[key] = copied(value)


def copied(value: Any) -> Any:
    """Returns the value with maps and lists of its own."""
    if isinstance(value, Mapping):
        inner = {key: copied(each) for key, each in value.items()}
        return AnyMap(inner) if isinstance(value, AnyMap) else inner
    return [copied(each) for each in value] if type(value) is list else value


def _merged(
    into: Mapping[str, Any], other: Mapping[str, Any], overwrite: bool = False
) -> dict[str, Any]:
    merged: dict[str, Any] = copied(into)
    merge_into(merged, other, overwrite)
    return merged


def _explode_map(values: Mapping[str, Any], name: str = "explodeMap") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted_keys(values):
        *directories, last = path.split("/")
        place = found
        for directory in directories:
            inner = place.setdefault(directory, {})
            if not isinstance(inner, dict):
                shown = f"%!q({type_name(inner)}={formatted(inner)})"
                raise InvalidInputError(
                    f"{name}: not a map: {quote(path)}: {quote(directory)} already has value "
                    f"{shown}"
                )
            place = inner
        value = values[path]
        place[last] = _explode_map(value, name) if type(value) is dict else value
    return found


def _explode(pairs: Iterable[GoStruct]) -> dict[str, Any]:
    values = {pair.go_field("Key"): pair.go_field("Value") for pair in pairs}
    return _explode_map(values, "explode")


def _by_key(pairs: Iterable[GoStruct]) -> dict[str, Any]:
    """The entries by the first part of their key, then by what follows it."""
    found: dict[str, Any] = {}
    for pair in pairs:
        first, _, rest = str(pair.go_field("Key")).partition("/")
        found.setdefault(first, {})[rest] = pair
    return found


def _services(name: str, value: Any) -> list[Any]:
    if value is None or value is INVALID:
        return []
    if not isinstance(value, list) or not all(isinstance(each, GoStruct) for each in value):
        raise InvalidInputError(f"{name}: wrong argument type {type_name(value)}")
    return value


def _by_tag(services: Any) -> dict[str, Any]:
    services = _services("byTag", services)
    found: dict[str, Any] = {}
    for service in services:
        for tag in service.go_field("Tags"):
            found.setdefault(tag, []).append(service)
    return found


def _by_port(services: Any) -> dict[Any, Any]:
    services = _services("byPort", services)
    found: dict[Any, Any] = {}
    for service in services:
        found.setdefault(service.go_field("Port"), []).append(service)
    return found


def _by_meta(keys: str, services: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for service in services or ():
        meta = service.go_field("ServiceMeta") or {}
        name = "_".join(str(meta.get(key.split("|")[0], "")) for key in keys.split(","))
        found.setdefault(name, []).append(service)
    return found


LISTS: dict[str, GoFunction] = {
    "in": any_fn(is_in, 2),
    "contains": any_fn(lambda value, values: is_in(values, value), 2),
    "containsAll": _of(lambda found, wanted: found == wanted),
    "containsAny": _of(lambda found, wanted: found > 0),
    "containsNone": _of(lambda found, wanted: found == 0),
    "containsNotAll": _of(lambda found, wanted: found < wanted),
    "explodeMap": fn(_explode_map, _MAP),
    "mergeMap": fn(
        lambda into, other, *_: _merged(into, other), _MAP, _MAP, rest="func(*mergo.Config)"
    ),
    "mergeMapWithOverride": fn(
        lambda into, other: _merged(into, other, overwrite=True), _MAP, _MAP
    ),
    "byTag": any_fn(_by_tag),
    "byPort": any_fn(_by_port),
    "byMeta": fn(_by_meta, "string", HealthServices.go_type),
    "byKey": fn(_by_key, KeyPairs.go_type),
    "explode": fn(_explode, KeyPairs.go_type),
}
