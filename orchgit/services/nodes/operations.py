"""What operators do to nodes: drain, eligibility, evaluation, purge."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.errors import RefusedError
from orchgit.model.base import datetime_of_ns
from orchgit.model.node import DrainStrategy, Eligibility, Node, NodeEvent
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.nodes import DeleteNodes, SetNodeDrain, UpdateNodeEligibility
from orchgit.services.context import UseCaseContext
from orchgit.services.nodes.evaluations import evaluations_for_node
from orchgit.services.nodes.registration import NodeUpdateResult
from orchgit.state.snapshot import Snapshot


async def drain_node(
    context: UseCaseContext,
    node_id: str,
    drain: DrainStrategy | None,
    mark_eligible: bool = False,
    meta: dict[str, str] | None = None,
) -> NodeUpdateResult:
    """Begins a drain, or ends it (`drain` None).

    A draining node is ineligible; its deadline starts now. `meta` is kept with the node's last
    drain.
    """
    with context.snapshot() as snapshot:
        node = _node(snapshot, node_id)
        becomes_eligible = drain is None and mark_eligible
        evaluations = evaluations_for_node(context, snapshot, node) if becomes_eligible else []
        index = snapshot.index
    if drain is None and node.drain_strategy is None and not becomes_eligible:
        return NodeUpdateResult(index, node.status)
    applied = await context.propose(
        SetNodeDrain(
            now_ns=context.now_ns(),
            node_id=node_id,
            drain=_started(drain, node.drain_strategy, context.now_ns()) if drain else None,
            mark_eligible=mark_eligible,
            meta=meta,
            evaluations=evaluations,
            event=_event(context, "drain strategy set" if drain else "drain disabled", "Drain"),
        )
    )
    return NodeUpdateResult(applied.index, node.status, tuple(each.id for each in evaluations))


async def set_node_eligibility(
    context: UseCaseContext, node_id: str, eligibility: str
) -> NodeUpdateResult:
    if eligibility not in (Eligibility.ELIGIBLE, Eligibility.INELIGIBLE):
        raise RefusedError(f'invalid scheduling eligibility "{eligibility}"')
    with context.snapshot() as snapshot:
        node = _node(snapshot, node_id)
        if node.scheduling_eligibility == eligibility:
            return NodeUpdateResult(0, node.status)
        if node.drain_strategy is not None and eligibility == Eligibility.ELIGIBLE:
            raise RefusedError(
                "can not set node's scheduling eligibility to eligible while it is draining"
            )
        eligible = eligibility == Eligibility.ELIGIBLE
        evaluations = evaluations_for_node(context, snapshot, node) if eligible else []
    applied = await context.propose(
        UpdateNodeEligibility(
            now_ns=context.now_ns(),
            node_id=node_id,
            eligibility=eligibility,
            evaluations=evaluations,
            event=_event(context, f"marked as {eligibility} for scheduling", "Cluster"),
        )
    )
    return NodeUpdateResult(applied.index, node.status, tuple(each.id for each in evaluations))


async def evaluate_node(context: UseCaseContext, node_id: str) -> NodeUpdateResult:
    """Evaluates every job that the node concerns."""
    with context.snapshot() as snapshot:
        node = _node(snapshot, node_id)
        evaluations = evaluations_for_node(context, snapshot, node)
        index = snapshot.index
    if evaluations:
        applied = await context.propose(
            UpsertEvaluations(now_ns=context.now_ns(), evaluations=evaluations)
        )
        index = applied.index
    return NodeUpdateResult(index, node.status, tuple(each.id for each in evaluations))


async def purge_node(context: UseCaseContext, node_id: str) -> NodeUpdateResult:
    """Deletes the node; the scheduler places its allocations elsewhere."""
    with context.snapshot() as snapshot:
        node = _node(snapshot, node_id)
        evaluations = evaluations_for_node(context, snapshot, node)
    applied = await context.propose(
        DeleteNodes(now_ns=context.now_ns(), node_ids=[node_id], evaluations=evaluations)
    )
    return NodeUpdateResult(applied.index, "", tuple(each.id for each in evaluations))


def _node(snapshot: Snapshot, node_id: str) -> Node:
    node = snapshot.nodes.get(node_id)
    if node is None:
        raise RefusedError("node not found")
    return node


def _started(drain: DrainStrategy, known: DrainStrategy | None, now_ns: int) -> DrainStrategy:
    """Returns the drain with its times.

    Deadline 0 is none, below 0 forces the drain at once. A drain that is changed keeps its start.
    """
    force = datetime_of_ns(now_ns + drain.deadline_ns) if drain.deadline_ns > 0 else None
    since = known.started_at if known is not None else None
    return replace(drain, started_at=since or datetime_of_ns(now_ns), force_deadline=force)


def _event(context: UseCaseContext, message: str, subsystem: str) -> NodeEvent:
    return NodeEvent(
        message=f"Node {message}",
        subsystem=subsystem,
        timestamp=datetime_of_ns(context.now_ns()),
    )
