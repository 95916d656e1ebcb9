"""Where the services of jobs are reached, as values and as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchgit.host_port import join_host_port
from orchgit.model.base import Model

MAX_SERVICES = 20
MAX_ADDRESSES = 5
"""Of one service."""


class ServiceAddress(Model):
    """A service of a job: `addresses` are host:port, the first of `count` different ones."""

    namespace: str = "default"
    job_id: str = ""
    name: str = ""
    addresses: list[str] = []
    count: int = 0


def addresses_of(registrations: Iterable[Mapping[str, Any]]) -> list[ServiceAddress]:
    """Returns one entry for each service of the registrations, in the order of their names."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for each in registrations:
        key = (each["Namespace"], each["JobID"], each["ServiceName"])
        host, port = each["Address"], each["Port"]
        found.setdefault(key, {})[join_host_port(host, port) if port else host] = None
    return [
        ServiceAddress(namespace, job_id, name, list(addresses)[:MAX_ADDRESSES], len(addresses))
        for (namespace, job_id, name), addresses in sorted(found.items())
        if any(addresses)
    ]


def service_lines(services: Sequence[ServiceAddress]) -> Iterable[str]:
    """Yields a line for each service, such as `web: 127.0.0.1:8080, 127.0.0.1:8081`."""
    for each in services:
        of_job = "" if each.name == each.job_id else f" ({each.job_id})"
        more = f", and {each.count - len(each.addresses)} more"
        shown = ", ".join(each.addresses)
        yield f"  {each.name}{of_job}: {shown}{more if each.count > len(each.addresses) else ''}"
    if len(services) >= MAX_SERVICES:
        yield '  `orchgit sql "select * from services"` lists all services'
