"""Allocations that were told to stop, on nodes that cannot say any more whether they did."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.node import NodeStatus
from orchgit.model.plan import AllocStop, Plan
from orchgit.scheduler.reconcile.changes import LOST
from orchgit.scheduler.reconcile.classify import Tainted


def lose_unconfirmed_stops(plan: Plan, allocations: Iterable[Allocation], tainted: Tainted) -> None:
    """Marks them lost: nothing else would, and drains, claims of volumes and the collection of
    their nodes wait for their end."""
    gone = {
        node_id
        for node_id, node in tainted.items()
        if node is None or node.status == NodeStatus.DOWN
    }
    if not gone:
        return
    known = {stop.alloc_id for stop in plan.stops}
    plan.stops += [
        AllocStop(
            alloc_id=allocation.id,
            node_id=allocation.node_id,
            desired_description=LOST,
            client_status=ClientStatus.LOST,
        )
        for allocation in allocations
        if allocation.is_server_terminal
        and not allocation.is_client_terminal
        and allocation.node_id in gone
        and allocation.id not in known
    ]
