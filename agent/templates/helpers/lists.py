"""consul-template's functions of lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.functions import GoFunction, any_fn, fn
from orchgit.go_templates.printing import formatted
from orchgit.go_templates.values import TypedList, plain, sorted_keys, type_name

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

    def check(wanted: list[Any], values: list[Any]) -> bool:
        return test(sum(is_in(values, each) for each in wanted), len(wanted))

    return fn(check, _LIST, _LIST)


def _merged(winner: Mapping[str, Any], loser: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(loser)
    for key, value in winner.items():
        known = merged.get(key)
        if type(value) is dict and type(known) is dict:
            value = _merged(value, known)
        merged[key] = value
    return merged


def _explode_map(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted_keys(values):
        *directories, name = path.split("/")
        place = found
        for directory in directories:
            inner = place.setdefault(directory, {})
            if not isinstance(inner, dict):
                shown = f"%!q({type_name(inner)}={formatted(inner)})"
                raise InvalidInputError(
                    f"explodeMap: not a map: {quote(path)}: {quote(directory)} already has value "
                    f"{shown}"
                )
            place = inner
        value = values[path]
        place[name] = _explode_map(value) if type(value) is dict else value
    return found


def _by_tag(services: Any) -> dict[str, Any]:
    if not isinstance(services, list):
        raise InvalidInputError(f"don't know what to do with type {type_name(services)}")
    found: dict[str, Any] = {}
    for service in services:
        for tag in service.go_field("Tags"):
            found.setdefault(tag, []).append(service)
    return found


def _by_port(services: Any) -> dict[Any, Any]:
    if not isinstance(services, list):
        raise InvalidInputError(f"don't know what to do with type {type_name(services)}")
    found: dict[Any, Any] = {}
    for service in services:
        found.setdefault(service.go_field("Port"), []).append(service)
    return found


def _by_meta(keys: str, services: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for service in services or ():
        meta = service.go_field("Meta") or {}
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
        lambda winner, loser, *_: _merged(winner, loser), _MAP, _MAP, rest="func(*mergo.Config)"
    ),
    "mergeMapWithOverride": fn(lambda loser, winner: _merged(winner, loser), _MAP, _MAP),
    "byTag": any_fn(_by_tag),
    "byPort": any_fn(_by_port),
    "byMeta": fn(_by_meta, "string", HealthServices.go_type),
    "byKey": fn(lambda pairs: {}, KeyPairs.go_type),
    "explode": fn(lambda pairs: {}, KeyPairs.go_type),
}
