"""Allocations by what their node and their agent's last word mean for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation, ClientStatus, DesiredStatus
from orchgit.model.base import ns_of_datetime
from orchgit.model.group import DisconnectStrategy, TaskGroup
from orchgit.model.node import Node, NodeStatus
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.reconcile.changes import Allocs

CLIENT_STATUS_FIELD = 0
GroupOf = Callable[[Allocation], TaskGroup | None]
Tainted = Mapping[str, Node | None]
"""By id: nodes that are gone (None), down, disconnected or draining."""


@dataclass(slots=True)
class Classes:
    untainted: Allocs = field(default_factory=dict)
    migrate: Allocs = field(default_factory=dict)
    lost: Allocs = field(default_factory=dict)
    disconnecting: Allocs = field(default_factory=dict)
    reconnecting: Allocs = field(default_factory=dict)
    expiring: Allocs = field(default_factory=dict)


def is_tainted(node: Node | None) -> bool:
    return node is None or not node.is_untainted


def tainted_nodes(view: ClusterView, allocations: Sequence[Allocation]) -> dict[str, Node | None]:
    """The nodes of the allocations that are gone, down, disconnected or draining."""
    nodes = {a.node_id: view.node(a.node_id) for a in allocations}
    return {node_id: node for node_id, node in nodes.items() if is_tainted(node)}


def last_recorded_status(allocation: Allocation) -> str:
    """The newest recorded client status: `unknown` until a reconnect was handled."""
    for state in reversed(allocation.alloc_states or ()):
        if state.field == CLIENT_STATUS_FIELD:
            return state.value
    return ""


def unknown_since_ns(allocation: Allocation) -> int:
    """When the newest `unknown` was recorded; 0: never."""
    for state in reversed(allocation.alloc_states or ()):
        if state.field == CLIENT_STATUS_FIELD and state.value == ClientStatus.UNKNOWN:
            return ns_of_datetime(state.time) if state.time is not None else 0
    return 0


def classify(allocs: Allocs, tainted: Tainted, group_of: GroupOf, now_ns: int) -> Classes:
    """Every allocation falls into exactly one class. Those that the servers ended do not matter
    to it, and are best left out before."""
    classes = Classes()
    for alloc_id, allocation in allocs.items():
        if allocation.node_id not in tainted and _is_undisturbed(allocation):
            classes.untainted[alloc_id] = allocation
            continue
        group = group_of(allocation)
        disconnect = group.disconnect if group is not None else None
        name = _class_of(allocation, tainted, disconnect, now_ns)
        getattr(classes, name)[alloc_id] = allocation
    return classes


def _is_undisturbed(allocation: Allocation) -> bool:
    """It runs as it should, and was never out of touch: what nearly all of them do."""
    return (
        allocation.client_status in (ClientStatus.RUNNING, ClientStatus.PENDING)
        and allocation.desired_status == DesiredStatus.RUN
        and not allocation.alloc_states
        and not allocation.desired_transition.migrate
    )


def _class_of(
    allocation: Allocation, tainted: Tainted, disconnect: DisconnectStrategy | None, now_ns: int
) -> str:
    """Whether the group waits for a node that is out of reach (`lost_after`) decides only what
    becomes of a running allocation when its node disconnects. Afterwards an allocation that was
    recorded as unknown is handled alike in all groups: its time is up at once without a wait."""
    status = allocation.client_status
    if allocation.is_server_terminal:
        return "untainted"
    is_unheard = last_recorded_status(allocation) == ClientStatus.UNKNOWN
    if status == ClientStatus.FAILED and is_unheard:
        return "reconnecting"
    if allocation.is_client_terminal:
        return "untainted"
    is_tainted_node = allocation.node_id in tainted
    node = tainted.get(allocation.node_id)
    lost_after_ns = disconnect.lost_after_ns if disconnect is not None else 0
    if node is not None and node.status == NodeStatus.DISCONNECTED:
        if lost_after_ns <= 0 or status == ClientStatus.PENDING:
            return "expiring" if status == ClientStatus.UNKNOWN else "lost"
        if status == ClientStatus.RUNNING:
            return "disconnecting"
    if allocation.desired_transition.migrate:
        return "migrate"
    if status == ClientStatus.UNKNOWN and unknown_since_ns(allocation) + lost_after_ns <= now_ns:
        return "expiring"
    if is_tainted_node and node is None:
        return "lost"
    if node is not None and node.status == NodeStatus.DOWN:
        return _class_on_dead_node(status, disconnect)
    is_there = node is None or node.status == NodeStatus.READY
    return "reconnecting" if is_unheard and is_there else "untainted"


def _class_on_dead_node(status: str, disconnect: DisconnectStrategy | None) -> str:
    """Without a wish for replacement the allocation waits for its node."""
    if disconnect is None or disconnect.replace:
        return "lost"
    if status == ClientStatus.UNKNOWN:
        return "untainted"
    return "disconnecting" if status == ClientStatus.RUNNING else "lost"
