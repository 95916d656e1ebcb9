"""Allocations that were told to stop, on nodes that cannot say any more whether they did."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import AllocStop, Plan
from orchgit.scheduler.reconcile.changes import LOST
from orchgit.scheduler.reconcile.classify import Tainted


def lose_unconfirmed_stops(plan: Plan, allocations: Iterable[Allocation], tainted: Tainted) -> None:
    """Call them lost: nothing else ever would, and a drain, a claim or a node's end waits for
    theirs."""
    gone = {node_id for node_id, node in tainted.items() if _is_gone(node)}
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


def _is_gone(node: Node | None) -> bool:
    return node is None or node.status == NodeStatus.DOWN
