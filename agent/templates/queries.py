"""What templates read of the cluster: variables, services, and what needs Consul or Vault."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from orchgit.errors import InvalidInputError


class QueryKind(StrEnum):
    VARIABLE = "variable"
    VARIABLES = "variables"
    """Those below a prefix, without their items."""
    SERVICE = "service"
    SERVICES = "services"
    CONSUL_KEY = "consul-key"
    CONSUL_KEYS = "consul-keys"
    """Those below a prefix, with their values."""
    CONSUL_SERVICE = "consul-service"
    CONSUL_SERVICES = "consul-services"
    CONSUL_DATACENTERS = "consul-datacenters"
    CONSUL_NODE = "consul-node"
    """With its services; "" is the node of the agent of Consul."""
    CONSUL_NODES = "consul-nodes"
    CONSUL_CONNECT = "consul-connect"
    """The proxies of a service of the mesh."""
    CONSUL_ROOTS = "consul-roots"
    CONSUL_LEAF = "consul-leaf"
    CONSUL_PARTITIONS = "consul-partitions"
    CONSUL_PEERINGS = "consul-peerings"
    CONSUL_EXPORTED = "consul-exported"
    VAULT_SECRET = "vault-secret"  # noqa: S105 - a kind of query
    VAULT_LIST = "vault-list"
    VAULT_WRITE = "vault-write"
    """What Vault answers to data that is written."""
    VAULT_PKI = "vault-pki"
    """A certificate that Vault issues."""


@dataclass(frozen=True, slots=True)
class Query:
    """One thing that a template reads. `namespace` and `region` are "" for the task's own; of
    Consul, `region` is the datacenter. `name` is a path, a prefix, or the name of a service or
    node; `data` is what is written, as `key=value`."""

    kind: QueryKind
    name: str
    namespace: str = ""
    region: str = ""
    data: tuple[str, ...] = ()


OUTSIDE = frozenset(kind for kind in QueryKind if kind.startswith(("consul", "vault")))
"""What no server of orchgit answers."""
_SERVICE = re.compile(
    r"(?:(?P<tag>[\w\-.]+)\.)?(?P<name>[\w\-/]+)(?:@(?P<region>[\w.\-]+))?", re.ASCII
)


def variable_query(kind: QueryKind, text: str) -> Query:
    """`path@namespace.region`, the last two optional. Raises InvalidInputError."""
    path, mark, rest = text.partition("@")
    namespace, _, region = rest.partition(".")
    if "@" in rest or (mark and not namespace):
        raise InvalidInputError(f'nomad.var: invalid format: "{text}"')
    return Query(kind, path.strip("/"), namespace, region)


def service_query(text: str) -> tuple[Query, str]:
    """(query, tag) of `tag.name@region`. Raises InvalidInputError."""
    match = _SERVICE.fullmatch(text)
    if match is None:
        raise InvalidInputError(f'nomad.service: invalid format: "{text}"')
    region = match["region"] or ""
    return Query(QueryKind.SERVICE, match["name"], region=region), match["tag"] or ""


_CONSUL_SERVICE = re.compile(
    r"(?:(?P<tag>[\w\-./:=]+)\.)?(?P<name>[\w\-/]+)(?:@(?P<datacenter>[\w.\-]+))?", re.ASCII
)


def consul_service_query(text: str) -> tuple[Query, str]:
    """(query, tag) of `tag.name@datacenter`. Raises InvalidInputError."""
    match = _CONSUL_SERVICE.fullmatch(text)
    if match is None:
        raise InvalidInputError(f'health.service: invalid format: "{text}"')
    datacenter = match["datacenter"] or ""
    return Query(QueryKind.CONSUL_SERVICE, match["name"], region=datacenter), match["tag"] or ""


def consul_query(kind: QueryKind, text: str) -> Query:
    """`path@datacenter`, the last optional."""
    path, _, datacenter = text.partition("@")
    return Query(kind, path.lstrip("/"), region=datacenter)


def why_unread(query: Query) -> str:
    """Why nothing on this node answers the query, and the way out."""
    for name in ("consul", "vault"):
        if query.kind.startswith(name):
            return (
                f"this node has no {name.title()}: add a {name} block to its configuration, or "
                f'constrain the job to nodes with "${{attr.{name}.version}}"'
            )
    return f'templates cannot read of another region: "{query.region}"'
