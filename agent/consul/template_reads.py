"""What the templates of tasks read of Consul: keys, services and datacenters."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from agent.config import ConsulConfig
from agent.consul import template_values as values
from agent.http_json import Reply, request
from agent.templates.cluster_reads import OutsideValue, Reader
from agent.templates.queries import Query, QueryKind
from orchgit.errors import RefusedError, UnreachableError
from orchgit.go_templates.values import from_bytes

_INTERVAL_S = 5.0
_ABSENT = (
    (QueryKind.CONSUL_KEY, 404),
    (QueryKind.CONSUL_KEYS, 404),
    (QueryKind.CONSUL_NODE, 404),
    (QueryKind.CONSUL_NODE, 200),
)
"""Statuses of an empty answer that says that nothing is there. Any other is no answer of Consul:
nothing must seem to be absent because of it."""
_AT_ONCE = 2
"""Requests under way: each holds a thread."""
_TOKEN_HEADER = "X-Consul-Token"  # noqa: S105 - the header's name
_SHOWN = {
    QueryKind.CONSUL_KEY: "kv.get({})",
    QueryKind.CONSUL_KEYS: "kv.list({})",
    QueryKind.CONSUL_SERVICE: "health.service({})",
    QueryKind.CONSUL_SERVICES: "catalog.services",
    QueryKind.CONSUL_DATACENTERS: "catalog.datacenters",
    QueryKind.CONSUL_NODE: "catalog.node({})",
    QueryKind.CONSUL_NODES: "catalog.nodes",
    QueryKind.CONSUL_CONNECT: "health.connect({})",
    QueryKind.CONSUL_ROOTS: "connect.caroots",
    QueryKind.CONSUL_LEAF: "connect.caleaf({})",
    QueryKind.CONSUL_PARTITIONS: "list.partitions",
    QueryKind.CONSUL_PEERINGS: "list.peerings",
    QueryKind.CONSUL_EXPORTED: "list.exportedServices({})",
}
_STATES = ("critical", "warning", "passing")
_MAINTENANCE = ("_node_maintenance", "_service_maintenance:")


class ConsulReads:
    """One per agent. Templates read as anonymous, unless they may use the agent's token."""

    kinds = frozenset(_SHOWN)
    is_per_task = False

    def __init__(self, config: ConsulConfig, use_token: bool) -> None:
        headers = {
            name: value
            for name, value in config.service.headers.items()
            if use_token or name != _TOKEN_HEADER
        }
        self._service = replace(config.service, headers=headers)
        self._namespace = config.namespace
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(self, query: Query, reader: Reader, last: OutsideValue | None) -> OutsideValue:
        """Raises UnreachableError and RefusedError."""
        shown = _SHOWN[query.kind].format(query.name)
        try:
            return OutsideValue(await self._value(query, shown), _INTERVAL_S)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise RefusedError(f"{shown}: cannot read the answer: it is not Consul's") from None

    async def _value(self, query: Query, shown: str) -> Any:
        name = quote(query.name, safe="/")
        match query.kind:
            case QueryKind.CONSUL_KEY:
                found = await self._ask(query, shown, f"kv/{name}")
                return {"Pair": _pair(found[0]) if found else None}
            case QueryKind.CONSUL_KEYS:
                found = await self._ask(query, shown, f"kv/{name}", recurse="true")
                return [_pair(each) for each in found or ()]
            case QueryKind.CONSUL_SERVICE | QueryKind.CONSUL_CONNECT:
                what = "service" if query.kind is QueryKind.CONSUL_SERVICE else "connect"
                found = await self._ask(query, shown, f"health/{what}/{name}")
                return sorted(map(_service, found or ()), key=lambda one: (one["Node"], one["ID"]))
            case QueryKind.CONSUL_SERVICES:
                found = await self._ask(query, shown, "catalog/services")
                named = sorted((found or {}).items())
                return [{"Name": each, "Tags": sorted(tags or ())} for each, tags in named]
            case QueryKind.CONSUL_DATACENTERS:
                return sorted(await self._ask(query, shown, "catalog/datacenters") or ())
            case QueryKind.CONSUL_NODES:
                found = await self._ask(query, shown, "catalog/nodes")
                nodes = map(values.node, found or ())
                return sorted(nodes, key=lambda one: (one["Node"], one["Address"]))
            case QueryKind.CONSUL_NODE:
                if not name:
                    own = await self._ask(query, shown, "agent/self")
                    name = quote(own["Config"]["NodeName"], safe="")
                return values.node_with_services(
                    await self._ask(query, shown, f"catalog/node/{name}")
                )
            case _:
                return await self._mesh_value(query, shown, name)

    async def _mesh_value(self, query: Query, shown: str, name: str) -> Any:
        match query.kind:
            case QueryKind.CONSUL_ROOTS:
                found = await self._ask(query, shown, "agent/connect/ca/roots")
                return list(map(values.root, found["Roots"]))
            case QueryKind.CONSUL_LEAF:
                return values.leaf(
                    await self._ask(query, shown, f"agent/connect/ca/leaf/{name}"), query.name
                )
            case QueryKind.CONSUL_PARTITIONS:
                try:
                    found = await self._ask(query, shown, "partitions")
                except RefusedError as error:
                    why = "only Consul Enterprise has partitions"
                    raise RefusedError(f"{error}; {why}") from None
                return sorted(map(values.partition, found), key=lambda one: str(one["Name"]))
        of_partition = {"partition": query.name} if query.name else {}
        if query.kind is QueryKind.CONSUL_PEERINGS:
            found = await self._ask(query, shown, "peerings", **of_partition)
            return sorted(map(values.peering, found or ()), key=lambda one: str(one["Name"]))
        found = await self._ask(query, shown, "config/exported-services", **of_partition)
        return values.exported_services(found or ())

    async def _ask(self, query: Query, shown: str, path: str, **options: str) -> Any:
        """Returns the answer; None where nothing is there."""
        if query.region:
            options["dc"] = query.region
        if self._namespace:
            options["ns"] = self._namespace
        try:
            async with self._turns:
                reply = await request(self._service, "GET", f"/v1/{path}?{urlencode(options)}")
        except UnreachableError as error:
            raise UnreachableError(f"{shown}: {error}") from None
        if reply.body is None and (query.kind, reply.status) in _ABSENT:
            return None
        return _checked(reply, shown)


def _checked(reply: Reply, shown: str) -> Any:
    """Raises RefusedError for what is no answer of Consul."""
    if not reply.ok:
        why = str(reply.body)[:500]
        raise RefusedError(f"{shown}: Unexpected response code: {reply.status} ({why})")
    if not isinstance(reply.body, list | dict):
        raise RefusedError(f"{shown}: cannot read the answer: it is not Consul's")
    return reply.body


def _pair(entry: Mapping[str, Any]) -> dict[str, Any]:
    names = ("CreateIndex", "ModifyIndex", "LockIndex", "Flags")
    return {
        "Path": entry["Key"],
        "Value": from_bytes(base64.b64decode(entry.get("Value") or "")),
        "Session": entry.get("Session") or "",
        **{name: entry.get(name) or 0 for name in names},
    }


def _service(entry: Mapping[str, Any]) -> dict[str, Any]:
    node, service = entry["Node"], entry["Service"]
    checks = entry.get("Checks") or ()
    return {
        "Node": node.get("Node", ""),
        "NodeID": node.get("ID", ""),
        "NodeAddress": node.get("Address", ""),
        "NodeDatacenter": node.get("Datacenter", ""),
        "NodeTaggedAddresses": node.get("TaggedAddresses") or {},
        "NodeMeta": node.get("Meta") or {},
        "ServiceMeta": service.get("Meta") or {},
        "Address": service.get("Address") or node.get("Address", ""),
        "ID": service.get("ID", ""),
        "Name": service.get("Service", ""),
        "Tags": sorted(service.get("Tags") or ()),
        "Status": _status(checks),
        "Port": service.get("Port") or 0,
        "Weights": service.get("Weights") or {},
        "Namespace": service.get("Namespace") or "",
    }


def _status(checks: Any) -> str:
    """The worst of the checks; a service without one is well."""
    if any(str(each.get("CheckID", "")).startswith(_MAINTENANCE) for each in checks):
        return "maintenance"
    states = {each.get("Status") for each in checks}
    return next((state for state in _STATES if state in states), "passing")
