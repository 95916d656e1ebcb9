"""Chooses the provider of services whose job file names none.

Nomad's default is Consul. Servers of orchgit have no Consul: such a group could never be placed, so
its services are registered with the servers themselves, as `provider = "nomad"` says.
"""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]
_NATIVE_CHECKS = frozenset(("http", "tcp"))


def choose_providers(spec: Spec) -> None:
    """Sets `Provider` in the services of a parsed job file that name none, in place.

    A group keeps Nomad's default if it needs Consul: where another of its services names it, or
    has a Connect block, or checks of a kind that only Consul has.
    """
    for group in spec["TaskGroups"] or ():
        owners = (group, *(group["Tasks"] or ()))
        services = [each for owner in owners for each in owner["Services"] or ()]
        if not any(map(_needs_consul, services)):
            for service in services:
                service["Provider"] = service["Provider"] or "nomad"


def _needs_consul(service: Spec) -> bool:
    kinds = {check["Type"] for check in service["Checks"] or ()}
    return service["Provider"] == "consul" or bool(
        service["Connect"] is not None or service["Cluster"] or kinds - _NATIVE_CHECKS
    )
