"""Whether a plan keeps a namespace's quota: the last word, on the newest committed state.

A plan of a namespace with a quota is checked after every earlier plan was committed, so that the
usage which it adds to is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchgit.model.allocation import TERMINAL_CLIENT_STATUSES
from orchgit.model.plan import PlanResult
from orchgit.model.quota import QuotaAmounts, QuotaSpec, amounts_of
from orchgit.state.quota_usage import namespaces_of_quota, quota_usage
from orchgit.state.snapshot import Snapshot


class NamespaceQuotas:
    """The quotas of namespaces, read again when they change."""

    def __init__(self) -> None:
        self._index = -1
        self._quotas: Mapping[str, QuotaSpec] = {}

    def of(self, namespace: str, snapshot: Snapshot, index: int) -> QuotaSpec | None:
        """Returns the namespace's quota; `index` is that of the last change of either table."""
        if index != self._index:
            named = {each.name: each for each in snapshot.quotas.all()}
            self._quotas = {
                each.name: named[each.quota]
                for each in snapshot.namespaces.all()
                if each.quota in named
            }
            self._index = index
        return self._quotas.get(namespace)


def exceeded(quota: QuotaSpec, namespace: str, result: PlanResult, snapshot: Snapshot) -> list[str]:
    """Returns what the changes of a plan of the namespace would exceed, by the names of
    `QuotaAmounts.by_name`.

    A plan that takes less of something than it gives back may do so even above the limit: a quota
    that was lowered stops nothing.
    """
    change = QuotaAmounts()
    for placements in result.placements:
        shared = len(placements.alloc_ids) - len(placements.resources_of)
        change.add(amounts_of(placements.resources), shared)
        for own in placements.resources_of.values():
            change.add(amounts_of(own))
    sharing = namespaces_of_quota(snapshot, quota.name)
    for amounts, times in _changes_of_known(result, snapshot, sharing):
        change.add(amounts, times)
    added = {name: amount for name, amount in change.by_name().items() if amount > 0}
    limits = quota.allowed()
    if not added.keys() & limits.keys():
        return []
    used = quota_usage(snapshot, sharing).by_name()
    return [
        name for name, more in added.items() if name in limits and used[name] + more > limits[name]
    ]


def _changes_of_known(
    result: PlanResult, snapshot: Snapshot, namespaces: list[str]
) -> Iterator[tuple[QuotaAmounts, int]]:
    """Yields what allocations that the plan ends, or changes, give back and take."""
    ended = {each.alloc_id for each in result.stops}
    ended |= {each.alloc_id for each in result.preemptions}
    updates = {each.alloc_id: each for each in result.updates}
    for allocation in snapshot.allocations.get_many({*ended, *updates}):
        resources = allocation.allocated_resources
        if allocation.is_terminal or resources is None or allocation.namespace not in namespaces:
            continue
        update = updates.get(allocation.id)
        if allocation.id in ended or (
            update is not None and update.client_status in TERMINAL_CLIENT_STATUSES
        ):
            yield amounts_of(resources), -1
        elif update is not None and update.allocated_resources is not None:
            yield amounts_of(resources), -1
            yield amounts_of(update.allocated_resources), 1
