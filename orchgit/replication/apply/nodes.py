"""Nodes: registration, status, drain, eligibility (invariant 5)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchgit.errors import ConflictError, NotAllowedError, NotFoundError
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.node import Eligibility, Node, NodeEvent, NodePool, NodeStatus
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.nodes import (
    DeleteNodes,
    RegisterNode,
    SetNodeDrain,
    UpdateNodeDrain,
    UpdateNodeEligibility,
    UpdateNodeStatus,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn

EVENTS_KEPT = 10


def register_node(txn: WriteTxn, command: RegisterNode, effects: Effects) -> Node:
    known = txn.nodes.get(command.node.id)
    node = _new(txn, command.node) if known is None else _known(command.node, known)
    if txn.node_pools.get(node.node_pool) is None:  # a node may name a pool that nobody created
        pool = NodePool(name=node.node_pool, create_index=txn.index, modify_index=txn.index)
        txn.node_pools.put_all([pool])
    _store(txn, node)
    effects.note(txn.index, "NodeRegistration", node)
    return node


def _new(txn: WriteTxn, node: Node) -> Node:
    event = NodeEvent(message="Node registered", subsystem="Cluster")
    node = msgspec.structs.replace(
        node,
        events=[],
        last_missed_heartbeat_index=0,
        last_alloc_update_index=0,
        create_index=txn.index,
        status_updated_at=txn.now_ns // NS_PER_S,
    )
    _add_event(txn, node, event)
    return node


def _known(node: Node, known: Node) -> Node:
    """Returns the node as its agent describes it, with the servers' own fields as stored."""
    if node.secret_id != known.secret_id:
        raise NotAllowedError(
            f"cannot register node {node.id!r}: its secret is not the one it registered with; "
            "give the agent its old data directory, or purge the node"
        )
    return msgspec.structs.replace(
        node,
        status=known.status,
        status_description=known.status_description,
        status_updated_at=known.status_updated_at,
        scheduling_eligibility=known.scheduling_eligibility,
        drain=known.drain,
        drain_strategy=known.drain_strategy,
        last_drain=known.last_drain,
        events=known.events,
        last_missed_heartbeat_index=known.last_missed_heartbeat_index,
        last_alloc_update_index=known.last_alloc_update_index,
        create_index=known.create_index,
    )


def update_node_status(txn: WriteTxn, command: UpdateNodeStatus, effects: Effects) -> None:
    node = _node(txn, command.node_id)
    if command.status == NodeStatus.READY and not has_reported(node):
        raise ConflictError(
            f"cannot make node {node.id!r} ready: it missed heartbeats at index "
            f"{node.last_missed_heartbeat_index} and has not reported its allocations since"
        )
    node.status, node.status_description = command.status, command.description
    node.status_updated_at = txn.now_ns // NS_PER_S
    if command.missed_heartbeat:
        node.last_missed_heartbeat_index = txn.index
    _finish(txn, node, command.event, "NodeEvent", effects)
    store_evaluations(txn, command.evaluations, effects)


def has_reported(node: Node) -> bool:
    """Whether the node's last allocation update is newer than its last missed heartbeat."""
    missed = node.last_missed_heartbeat_index
    return missed == 0 or missed < node.last_alloc_update_index


def update_node_drain(txn: WriteTxn, command: UpdateNodeDrain, effects: Effects) -> None:
    node = _node(txn, command.node_id)
    _record_drain(txn, node, command)
    _change_drain(txn, node, command, effects)


def set_node_drain(txn: WriteTxn, command: SetNodeDrain, effects: Effects) -> None:
    node = _node(txn, command.node_id)
    node.last_drain = _last_drain(txn, node, command)
    _change_drain(txn, node, command, effects)


def _change_drain(
    txn: WriteTxn, node: Node, command: UpdateNodeDrain | SetNodeDrain, effects: Effects
) -> None:
    node.drain_strategy = command.drain
    node.drain = command.drain is not None
    if node.drain:
        node.scheduling_eligibility = Eligibility.INELIGIBLE
    elif command.mark_eligible:
        node.scheduling_eligibility = Eligibility.ELIGIBLE
    _finish(txn, node, command.event, "NodeDrain", effects)
    store_evaluations(txn, command.evaluations, effects)


def _last_drain(txn: WriteTxn, node: Node, command: SetNodeDrain) -> dict[str, object] | None:
    """Returns `LastDrain` in Nomad's shape: draining, then complete, or canceled if it was ended
    before it was complete."""
    now = datetime_of_ns(txn.now_ns).isoformat().replace("+00:00", "Z")
    last = dict(node.last_drain or {})
    if command.drain is not None:
        if not node.drain:
            last = {"StartedAt": now, "AccessorID": "", "Meta": None}
        last |= {"UpdatedAt": now, "Status": "draining", "Meta": command.meta}
        if txn.author is not None:
            last["AccessorID"] = txn.author.accessor_id
    elif node.drain:
        status = "complete" if command.completed else "canceled"
        last |= {"UpdatedAt": now, "Status": status, "Meta": command.meta or last.get("Meta")}
    return last or None


def _record_drain(txn: WriteTxn, node: Node, command: UpdateNodeDrain) -> None:
    """Record the drain as servers of the first version do: their log entries mean this."""
    now = datetime_of_ns(txn.now_ns).isoformat().replace("+00:00", "Z")
    last = dict(node.last_drain or {})
    if command.drain is not None:
        if not node.drain:
            last = {"StartedAt": now, "AccessorID": "", "Meta": None}
        last |= {"UpdatedAt": now, "Status": "draining"}
    elif node.drain:
        last |= {"UpdatedAt": now, "Status": "canceled" if command.mark_eligible else "complete"}
    node.last_drain = last or None


def update_node_eligibility(
    txn: WriteTxn, command: UpdateNodeEligibility, effects: Effects
) -> None:
    node = _node(txn, command.node_id)
    if node.drain and command.eligibility == Eligibility.ELIGIBLE:
        raise ConflictError(
            f"cannot make node {node.id!r} eligible: it is draining; stop the drain first"
        )
    node.scheduling_eligibility = command.eligibility
    _finish(txn, node, command.event, "NodeEligibility", effects)
    store_evaluations(txn, command.evaluations, effects)


def delete_nodes(txn: WriteTxn, command: DeleteNodes, effects: Effects) -> None:
    for node in [_node(txn, node_id) for node_id in command.node_ids]:
        effects.note(txn.index, "NodeDeregistration", node)
    txn.nodes.delete_all(command.node_ids)
    store_evaluations(txn, command.evaluations, effects)


def _node(txn: WriteTxn, node_id: str) -> Node:
    node = txn.nodes.get(node_id)
    if node is None:
        raise NotFoundError(f"cannot find node {node_id!r}: it is not registered, or was purged")
    return node


def _finish(
    txn: WriteTxn, node: Node, event: NodeEvent | None, type_: str, effects: Effects
) -> None:
    if event is not None:
        _add_event(txn, node, event)
    _store(txn, node)
    effects.note(txn.index, type_, node)


def _add_event(txn: WriteTxn, node: Node, event: NodeEvent) -> None:
    stamped = msgspec.structs.replace(
        event,
        create_index=txn.index,
        timestamp=event.timestamp or datetime_of_ns(txn.now_ns),
    )
    events: Sequence[NodeEvent] = [*node.events, stamped]
    node.events = list(events[-EVENTS_KEPT:])


def _store(txn: WriteTxn, node: Node) -> None:
    node.modify_index = txn.index
    txn.nodes.put(node)


HANDLERS: Handlers = {
    RegisterNode: register_node,
    UpdateNodeStatus: update_node_status,
    UpdateNodeDrain: update_node_drain,
    SetNodeDrain: set_node_drain,
    UpdateNodeEligibility: update_node_eligibility,
    DeleteNodes: delete_nodes,
}
