"""How much of a quota its namespaces take."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.quota import QuotaAmounts, QuotaSpec, amounts_of
from orchgit.state.snapshot import StateReads


def namespaces_of_quota(snapshot: StateReads, name: str) -> list[str]:
    """Returns the names of the namespaces that share the quota."""
    return [each.name for each in snapshot.namespaces.all() if each.quota == name]


def quota_of_namespace(snapshot: StateReads, namespace: str) -> QuotaSpec | None:
    known = snapshot.namespaces.get(namespace)
    return snapshot.quotas.get(known.quota) if known is not None and known.quota else None


def quota_usage(snapshot: StateReads, namespaces: Sequence[str]) -> QuotaAmounts:
    """Returns what the live allocations of the namespaces take: those that are to run and have not
    ended."""
    used = QuotaAmounts()
    for namespace in namespaces:
        used.add(snapshot.namespace_usage.without_cores(namespace))
        with_cores = snapshot.namespace_usage.ids_with_cores(namespace)
        for allocation in snapshot.allocations.get_many(with_cores):
            if allocation.allocated_resources is not None:
                used.add(amounts_of(allocation.allocated_resources))
    return used
