"""The template functions that read Consul and Vault, and the values that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
        "connect": fn(lambda *given: consul.service(given, mesh=True), rest="string"),
        "services": fn(lambda *given: consul.services(given), rest="string"),
        "datacenters": fn(consul.datacenters),
        "node": fn(lambda *given: consul.node(given), rest="string"),
        "nodes": fn(lambda *given: consul.nodes(given), rest="string"),
        "caRoots": fn(consul.roots),
        "caLeaf": text_fn(consul.leaf),
        "partitions": fn(consul.partitions),
        "peerings": fn(lambda *given: consul.peerings(given), rest="string"),
        "exportedServices": text_fn(consul.exported_services),
        "pkiCert": fn(lambda *given: vault.certificate(given), rest="string"),
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

    def service(self, given: tuple[str, ...], *, mesh: bool = False) -> HealthServices:
        """`mesh`: the proxies of the service."""
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
        if mesh:
            query = replace(query, kind=QueryKind.CONSUL_CONNECT)
        what = "connect" if mesh else "service"
        shown = f"health.{what}({given[0]}|{','.join(states)})"
        found = self._ask(query, shown, True) or []
        return HealthServices(
            health_service(each)
            for each in found
            if (_ANY_STATE in states or each["Status"] in states)
            and (not tag or tag in each["Tags"])
        )

    def services(self, given: tuple[str, ...]) -> list[Any]:
        datacenter = _at_most_one(given).lstrip("@")
        query = Query(QueryKind.CONSUL_SERVICES, "", region=datacenter)
        found = self._ask(query, f"catalog.services{_at(datacenter)}", True) or []
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

    def node(self, given: tuple[str, ...]) -> GoStruct | None:
        """The node with its services; its own field `Node` is nil where there is no such node."""
        query = consul_query(QueryKind.CONSUL_NODE, _at_most_one(given))
        shown = f"catalog.node({_shown(query)})" if _shown(query) else "catalog.node"
        found = self._ask(query, shown, True)
        if found is None:
            return None
        services = [
            GoRecord(
                "*dependency.CatalogNodeService",
                {**each, "Tags": ServiceTags(each["Tags"]), "Meta": StringMap(each["Meta"])},
            )
            for each in found["Services"]
        ]
        node = _node(found["Node"]) if found["Node"] else None
        return GoRecord("*dependency.CatalogNode", {"Node": node, "Services": services})

    def nodes(self, given: tuple[str, ...]) -> list[Any]:
        datacenter = _at_most_one(given).lstrip("@")
        query = Query(QueryKind.CONSUL_NODES, "", region=datacenter)
        found = self._ask(query, f"catalog.nodes{_at(datacenter)}", True) or []
        return [_node(each) for each in found]

    def roots(self) -> list[Any]:
        found = self._ask(Query(QueryKind.CONSUL_ROOTS, ""), "connect.caroots", True) or []
        return [GoRecord("*api.CARoot", each) for each in found]

    def leaf(self, service: str) -> GoStruct | None:
        if not service:
            return None
        query = Query(QueryKind.CONSUL_LEAF, service)
        found = self._ask(query, f"connect.caleaf({service})", True)
        if found is None:
            return None
        self._reading.secrets.add(found["PrivateKeyPEM"])
        return GoRecord("*api.LeafCert", found)

    def partitions(self) -> list[Any]:
        query = Query(QueryKind.CONSUL_PARTITIONS, "")
        found = self._ask(query, "list.partitions", True) or []
        return [GoRecord("*dependency.Partition", each) for each in found]

    def peerings(self, given: tuple[str, ...]) -> list[Any]:
        """Of a partition, or the default one."""
        query = Query(QueryKind.CONSUL_PEERINGS, _at_most_one(given))
        found = self._ask(query, "list.peerings", True) or []
        return [
            GoRecord("*dependency.Peering", {**each, "Meta": StringMap(each["Meta"])})
            for each in found
        ]

    def exported_services(self, partition: str) -> list[Any]:
        query = Query(QueryKind.CONSUL_EXPORTED, partition)
        found = self._ask(query, f"list.exportedServices({partition})", True) or []
        return [
            GoRecord(
                "dependency.ExportedService",
                {
                    "Service": each["Service"],
                    "Consumers": GoRecord(
                        "dependency.ResolvedConsumers",
                        {name: Strings(each[name]) for name in ("Peers", "Partitions")},
                    ),
                },
            )
            for each in found
        ]


class _Vault:
    def __init__(self, ask: Ask, reading: Reading) -> None:
        self._ask = ask
        self._reading = reading

    def secret(self, given: tuple[str, ...]) -> GoStruct | None:
        if not given or not given[0]:
            return None
        path = given[0].strip("/")
        query, shown = Query(QueryKind.VAULT_SECRET, path), f"vault.read({path})"
        if data := _written(given[1:]):
            query = Query(QueryKind.VAULT_WRITE, path, data=data)
            shown = f"vault.write({path})"
        found = self._ask(query, shown, True)
        if found is None:
            return None
        self._reading.secrets.update(filter(None, _texts(found["Data"])))
        return GoRecord("*dependency.Secret", found)

    def certificate(self, given: tuple[str, ...]) -> GoStruct | None:
        """`Cert`, `Key`, `CA` and `CAChain`."""
        if not given or not given[0]:
            return None
        path = given[0].strip("/")
        query = Query(QueryKind.VAULT_PKI, path, data=_written(given[1:]))
        found = self._ask(query, f"vault.pki({path})", True)
        if found is None:
            return None
        self._reading.secrets.update(filter(None, [found["Key"]]))
        return GoRecord("dependency.PemEncoded", {**found, "CAChain": Strings(found["CAChain"])})

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


def _node(data: Mapping[str, Any]) -> GoStruct:
    maps = {name: StringMap(data[name]) for name in ("Meta", "TaggedAddresses")}
    return GoRecord("*dependency.Node", {**data, **maps})


def _at_most_one(given: tuple[str, ...]) -> str:
    """The argument, or "" without one. Raises InvalidInputError for more."""
    if len(given) > 1:
        raise InvalidInputError(f"expected 0 or 1 arguments, but got {len(given)}")
    return given[0] if given else ""


def _at(datacenter: str) -> str:
    return f"(@{datacenter})" if datacenter else ""


def _written(pairs: tuple[str, ...]) -> tuple[str, ...]:
    """Data for Vault. Raises InvalidInputError for what is no `key=value`."""
    for each in pairs:
        if each and "=" not in each:
            raise InvalidInputError(f'not k=v pair "{each}"')
    return tuple(filter(None, pairs))


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
