"""Registers nodes and takes their status, as their agents ask (invariant 5)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError
from orchgit.model.base import datetime_of_ns
from orchgit.model.node import Node, NodeEvent, NodePool, NodeStatus
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.nodes import RegisterNode, UpdateNodeStatus
from orchgit.replication.commands.settings import UpsertNodePools
from orchgit.replication.commands.volumes import UpsertHostVolume
from orchgit.services.context import UseCaseContext
from orchgit.services.host_volumes import volumes_made
from orchgit.services.nodes.computed_class import computed_class
from orchgit.services.nodes.evaluations import evaluations_for_node

_log = structlog.get_logger(component="server")

OUT_OF_TOUCH = (NodeStatus.DOWN, NodeStatus.DISCONNECTED)


@dataclass(frozen=True, slots=True)
class NodeUpdateResult:
    """`status` is the node's status now, which may differ from what was asked for."""

    index: int
    status: str = ""
    eval_ids: tuple[str, ...] = ()


async def register_node(context: UseCaseContext, node: Node) -> NodeUpdateResult:
    """Stores what an agent found on its node; the node's status is not touched.

    Raises InvalidInputError for an incomplete node, NotAllowedError for a wrong secret.
    """
    _check_complete(node)
    with context.snapshot() as snapshot:
        known = snapshot.nodes.get(node.id)
        pool = snapshot.node_pools.get(node.node_pool)
        index = snapshot.index
    if known is not None and not hmac.compare_digest(known.secret_id, node.secret_id):
        raise NotAllowedError(
            f"cannot act for node {known.id}: the secret is not the one it was registered with; "
            "if its data directory was lost, purge the node first"
        )
    if pool is None:
        pool = NodePool(name=node.node_pool)
        await context.propose(UpsertNodePools(now_ns=context.now_ns(), pools=[pool]))
    node = replace(node, computed_class=computed_class(node))
    if known is not None and _same_facts(known, node):
        await _settle_volumes(context, node)
        return NodeUpdateResult(index, known.status)
    if known is None:
        node = replace(node, status=NodeStatus.INITIALIZING, events=[_event(context, "registered")])
    applied = await context.propose(RegisterNode(now_ns=context.now_ns(), node=node))
    if known is None:
        _log.info("node registered", node=node.id, name=node.name, pool=node.node_pool)
    await _settle_volumes(context, node)
    evals = await _evaluate_if_ready(context, node.id) if known is not None else ()
    status = known.status if known is not None else NodeStatus.INITIALIZING
    return NodeUpdateResult(applied.index, status, evals)


async def update_node_status(
    context: UseCaseContext, node_id: str, wanted: str
) -> NodeUpdateResult:
    """Stores the status that an agent reports.

    A node that missed heartbeats is held at `initializing` until its allocation update has been
    applied; a change that matters to jobs evaluates them.
    """
    with context.snapshot() as snapshot:
        node = snapshot.nodes.get(node_id)
        if node is None:
            raise NotFoundError(f"cannot update node {node_id}: it is unknown; register it first")
        status = gated_status(node, wanted)
        index = snapshot.index
        is_first = (node.status, status) == (NodeStatus.INITIALIZING, NodeStatus.READY)
        text = f"status changed from {node.status} to {status}"
        if status == node.status:
            return NodeUpdateResult(index, status)
        evaluations = (
            evaluations_for_node(context, snapshot, node)
            if concerns_jobs(node.status, status)
            else []
        )
    applied = await context.propose(
        UpdateNodeStatus(
            now_ns=context.now_ns(),
            node_id=node_id,
            status=status,
            evaluations=evaluations,
            event=None if is_first else _event(context, text),
        )
    )
    log = _log.warning if status in OUT_OF_TOUCH else _log.info
    log("node changed its status", node=node_id, name=node.name, status=status, before=node.status)
    return NodeUpdateResult(applied.index, status, tuple(each.id for each in evaluations))


def gated_status(node: Node, wanted: str) -> str:
    """Returns the status a node may have now when its agent asks for `wanted` (invariant 5)."""
    if wanted != NodeStatus.READY:
        return wanted
    missed = node.last_missed_heartbeat_index
    if missed and node.last_alloc_update_index <= missed:
        return NodeStatus.INITIALIZING
    return NodeStatus.READY


def concerns_jobs(old: str, new: str) -> bool:
    """Returns whether jobs must be evaluated: the node came, came back, or is down or
    disconnected."""
    return new in (NodeStatus.READY, *OUT_OF_TOUCH)


def _check_complete(node: Node) -> None:
    for name, value in (
        ("an id", node.id),
        ("a secret", node.secret_id),
        ("a name", node.name),
        ("a datacenter", node.datacenter),
        ("a node pool", node.node_pool),
    ):
        if not value:
            raise InvalidInputError(f"cannot register node {node.name or node.id}: {name} missing")
    if node.node_pool == "all":
        raise InvalidInputError('cannot register a node in pool "all"; name another pool')


_OURS = frozenset(
    (
        "status",
        "status_description",
        "status_updated_at",
        "scheduling_eligibility",
        "drain",
        "drain_strategy",
        "last_drain",
        "events",
        "last_missed_heartbeat_index",
        "last_alloc_update_index",
        "create_index",
        "modify_index",
    )
)


def _same_facts(known: Node, found: Node) -> bool:
    """Returns whether the agent found nothing new; the fields that servers set do not count."""
    return all(
        getattr(known, name) == getattr(found, name)
        for name in Node.__struct_fields__
        if name not in _OURS
    )


def _event(context: UseCaseContext, message: str) -> NodeEvent:
    return NodeEvent(
        message=f"Node {message}",
        subsystem="Cluster",
        timestamp=datetime_of_ns(context.now_ns()),
    )


async def _settle_volumes(context: UseCaseContext, node: Node) -> None:
    """Marks the volumes that the node has made as ready."""
    with context.snapshot() as snapshot:
        made = volumes_made(snapshot, node)
    for volume in made:
        await context.propose(UpsertHostVolume(now_ns=context.now_ns(), volume=volume))


async def _evaluate_if_ready(context: UseCaseContext, node_id: str) -> tuple[str, ...]:
    """Evaluates the jobs that a ready node may suit now that its facts changed."""
    with context.snapshot() as snapshot:
        node = snapshot.nodes.get(node_id)
        if node is None or not node.is_ready:
            return ()
        evaluations = evaluations_for_node(context, snapshot, node)
    if evaluations:
        await context.propose(UpsertEvaluations(now_ns=context.now_ns(), evaluations=evaluations))
    return tuple(evaluation.id for evaluation in evaluations)
