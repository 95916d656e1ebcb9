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
    CONSUL = "consul"
    VAULT = "vault"


@dataclass(frozen=True, slots=True)
class Query:
    """One thing that a template reads. `namespace` and `region` are "" for the task's own; `name`
    is a path, a prefix, a service's name or, of Consul and Vault, what is read there."""

    kind: QueryKind
    name: str
    namespace: str = ""
    region: str = ""


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
