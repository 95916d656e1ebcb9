"""The template functions that read Consul and Vault, and the values that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.templates.helpers.lists import HealthServices, KeyPairs
from agent.templates.nomad_values import GoRecord, ServiceTags
from agent.templates.queries import Query, QueryKind, consul_query, consul_service_query
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import GoFunction, fn, text_fn
from orchgit.go_templates.values import GoStruct, StringMap, Strings, Uint64

Ask = Callable[[Query, str, bool], Any]
"""The value of a query; None where there is none. The text names the query, and the switch says
whether the template waits for a value."""
_STATES = ("passing", "warning", "critical", "maintenance")
_ANY_STATE = "any"
_BY_DEFAULT = "passing"


@dataclass(slots=True)
class Reading:
    """What one rendering found out: `missing` names what it cannot do without; `secrets` are
    values of variables, which no error may show."""

    missing: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)

    def redacted(self, text: str) -> str:
        for value in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(value, "[redacted]")
        return text


def outside_functions(ask: Ask, reading: Reading) -> dict[str, GoFunction]:
    """Every function that Consul or Vault answers, where the node's configuration names them."""
    consul, vault = _Consul(ask, reading), _Vault(ask, reading)
    return {
        "key": text_fn(consul.key),
        "keyExists": text_fn(lambda path: consul.pair(path).go_field("Exists")),
        "keyExistsGet": text_fn(consul.pair),
        "keyOrDefault": text_fn(consul.key_or_default, 2),
        "ls": text_fn(lambda prefix: consul.pairs(prefix, deep=False)),
        "safeLs": text_fn(lambda prefix: consul.pairs(prefix, deep=False, safe=True)),
        "tree": text_fn(lambda prefix: consul.pairs(prefix, deep=True)),
        "safeTree": text_fn(lambda prefix: consul.pairs(prefix, deep=True, safe=True)),
        "service": fn(lambda *given: consul.service(given), rest="string"),
        "services": fn(lambda *given: consul.services(given), rest="string"),
        "datacenters": fn(consul.datacenters),
        "secret": fn(lambda *given: vault.secret(given), rest="string"),
        "secrets": text_fn(vault.secrets),
    }


class _Consul:
    def __init__(self, ask: Ask, reading: Reading) -> None:
        self._ask = ask
        self._reading = reading

    def key(self, path: str) -> str:
        """Waits until the key is there."""
        if not path:
            return ""
        query = consul_query(QueryKind.CONSUL_KEY, path)
        shown = f"kv.block({_shown(query)})"
        found = self._ask(query, shown, True)
        if found is None or found["Pair"] is None:
            self._reading.missing.add(shown)
            return ""
        return str(found["Pair"]["Value"])

    def key_or_default(self, path: str, default: str) -> str:
        pair = self.pair(path)
        return str(pair.go_field("Value")) or default

    def pair(self, path: str) -> GoStruct:
        """The key's entry; its field `Exists` says whether it is there."""
        if not path:
            return key_pair(None, "")
        query = consul_query(QueryKind.CONSUL_KEY, path)
        found = self._ask(query, f"kv.get({_shown(query)})", True)
        return key_pair(found["Pair"] if found is not None else None, query.name)

    def pairs(self, prefix: str, *, deep: bool, safe: bool = False) -> KeyPairs:
        """`safe` waits until there is one."""
        if not prefix:
            return KeyPairs()
        query = consul_query(QueryKind.CONSUL_KEYS, prefix)
        shown = f"kv.list({_shown(query)})"
        found = self._ask(query, shown, True) or []
        if safe and not found:
            self._reading.missing.add(shown)
        pairs = [(each["Path"].removeprefix(query.name).lstrip("/"), each) for each in found]
        return KeyPairs(
            key_pair(each, key)
            for key, each in pairs
            if not each["Path"].endswith("/") and (deep or (key and "/" not in key))
        )

    def service(self, given: tuple[str, ...]) -> HealthServices:
        if len(given) not in (1, 2):
            raise InvalidInputError(f"expected 1 or 2 arguments, but got {len(given)}")
        if not given[0]:
            return HealthServices()
        query, tag = consul_service_query(given[0])
        states = [each.strip() for each in ",".join(given[1:] or (_BY_DEFAULT,)).split(",")]
        for state in states:
            if state not in (*_STATES, _ANY_STATE):
                raise InvalidInputError(
                    f'health.service: invalid filter: "{state}" in "{",".join(states)}"'
                )
        shown = f"health.service({given[0]}|{','.join(states)})"
        found = self._ask(query, shown, True) or []
        return HealthServices(
            health_service(each)
            for each in found
            if (_ANY_STATE in states or each["Status"] in states)
            and (not tag or tag in each["Tags"])
        )

    def services(self, given: tuple[str, ...]) -> list[Any]:
        if len(given) > 1:
            raise InvalidInputError(f"expected 0 or 1 arguments, but got {len(given)}")
        datacenter = given[0].lstrip("@") if given else ""
        query = Query(QueryKind.CONSUL_SERVICES, "", region=datacenter)
        at = f"(@{datacenter})" if datacenter else ""
        found = self._ask(query, f"catalog.services{at}", True) or []
        return [
            GoRecord(
                "*dependency.CatalogSnippet",
                {"Name": each["Name"], "Tags": ServiceTags(each["Tags"])},
            )
            for each in found
        ]

    def datacenters(self) -> Strings:
        query = Query(QueryKind.CONSUL_DATACENTERS, "")
        return Strings(self._ask(query, "catalog.datacenters", True) or ())


class _Vault:
    def __init__(self, ask: Ask, reading: Reading) -> None:
        self._ask = ask
        self._reading = reading

    def secret(self, given: tuple[str, ...]) -> GoStruct | None:
        if not given or not given[0]:
            return None
        path = given[0].strip("/")
        kind, shown = QueryKind.VAULT_SECRET, f"vault.read({path})"
        if len(given) > 1:  # data to write
            kind, shown = QueryKind.VAULT, f"vault.write({path})"
        found = self._ask(Query(kind, path), shown, True)
        if found is None:
            return None
        self._reading.secrets.update(filter(None, _texts(found["Data"])))
        return GoRecord("*dependency.Secret", found)

    def secrets(self, path: str) -> Strings:
        if not path:
            return Strings()
        path = path.strip("/")
        found = self._ask(Query(QueryKind.VAULT_LIST, path), f"vault.list({path})", True)
        return Strings(found or ())


def key_pair(data: Mapping[str, Any] | None, key: str) -> GoStruct:
    """`data` is None for a key that is not there."""
    given = data or {"Path": key, "Value": "", "Session": ""}
    fields = {
        "Path": given["Path"],
        "Key": key,
        "Value": given["Value"],
        "Exists": data is not None,
        **{
            name: Uint64(given.get(name, 0))
            for name in ("CreateIndex", "ModifyIndex", "LockIndex", "Flags")
        },
        "Session": given["Session"],
    }
    return GoRecord("*dependency.KeyPair", fields)


def health_service(data: Mapping[str, Any]) -> GoStruct:
    maps = ("NodeMeta", "NodeTaggedAddresses", "ServiceMeta")
    fields = {
        **data,
        "Tags": ServiceTags(data["Tags"]),
        **{name: StringMap(data[name]) for name in maps},
    }
    return GoRecord("*dependency.HealthService", fields)


def _shown(query: Query) -> str:
    return f"{query.name}@{query.region}" if query.region else query.name


def _texts(value: object) -> Iterator[str]:
    """Every string inside of the value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
