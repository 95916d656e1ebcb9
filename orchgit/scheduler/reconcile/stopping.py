"""Which allocations go when there are more than the count, and when agents stop lost ones."""

from __future__ import annotations

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.base import NS_PER_S, ns_of_datetime
from orchgit.model.group import TaskGroup
from orchgit.scheduler.reconcile.changes import Allocs, by_name, without
from orchgit.scheduler.reconcile.classify import CLIENT_STATUS_FIELD
from orchgit.scheduler.reconcile.names import NameIndex

_MIN_KILL_NS = 5 * NS_PER_S


def choose_stops(
    names: NameIndex,
    count: int,
    untainted: Allocs,
    migrate: Allocs,
    canaries: Allocs,
    *,
    is_canarying: bool,
) -> Allocs:
    """While there are more than the count: old ones that a promoted canary stands in for,
    migrating ones, those with the highest names, duplicates.

    What is out of touch does not count as running, but may be what goes by its name. What has
    failed and waits to be rescheduled counts, and goes by its name like the others: a lower count
    may not stop what runs for the sake of what does not."""
    if is_canarying:
        untainted = without(untainted, canaries)
    live = {i: a for i, a in untainted.items() if not a.is_server_terminal}
    stops: Allocs = {}
    known = [a for a in untainted.values() if a.client_status != ClientStatus.UNKNOWN]
    remove = len(known) + len(migrate) - count
    if remove <= 0:
        return stops
    if canaries and not is_canarying:
        promoted = {canary.name for canary in canaries.values()}
        old = without(live, canaries, stops)
        _take(stops, [a for a in by_name(old) if a.name in promoted], remove)
    if len(stops) < remove and migrate:
        highest = NameIndex(count, migrate.values()).highest(remove - len(stops))
        chosen = [a for a in by_name(migrate) if a.name_index in highest]
        _take(stops, chosen, remove)
        for allocation in chosen:
            names.free(allocation.name_index)
    if len(stops) < remove:
        highest = names.highest(remove - len(stops))
        rest = without(live, stops)
        _take(stops, [a for a in by_name(rest) if a.name_index in highest], remove)
    _take(stops, list(reversed(by_name(without(live, stops)))), remove)
    return stops


def _take(stops: Allocs, candidates: list[Allocation], limit: int) -> None:
    for allocation in candidates:
        if len(stops) >= limit:
            return
        stops[allocation.id] = allocation


def client_stop_ns(allocation: Allocation, group: TaskGroup | None, now_ns: int) -> int | None:
    """When the agent of a lost allocation will have stopped it; None: it does not by itself."""
    if group is None or group.disconnect is None:
        return None
    after_ns = group.disconnect.stop_on_client_after_ns
    if not after_ns:
        return None
    lost_ns = next(
        (
            ns_of_datetime(state.time)
            for state in allocation.alloc_states or ()
            if state.field == CLIENT_STATUS_FIELD
            and state.value == ClientStatus.LOST
            and state.time is not None
        ),
        now_ns,
    )
    kill_ns = max([_MIN_KILL_NS, *(task.kill_timeout_ns for task in group.tasks)])
    return lost_ns + after_ns + kill_ns
