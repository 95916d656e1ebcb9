"""Tells a node where the data is that one of its allocations takes over from another node."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from starlette.types import Scope

from orchgit.errors import NotAllowedError, NotFoundError
from orchgit.model.allocation import ClientStatus
from orchgit.model.node import Node, NodeStatus
from orchgit.services.context import UseCaseContext
from orchgit.state.changes import target
from orchgit.state.snapshot import Snapshot
from orchgit.wire.relay_proof import HEADER, is_proven, proof


@dataclass(frozen=True, slots=True)
class MigrationSource:
    """`runs`: the previous allocation has not ended yet. `gone`: why there is no data to be had.
    Else `url` answers a request with `proof`."""

    runs: bool = False
    gone: str = ""
    node_id: str = ""
    url: str = ""
    proof: str = ""


async def find_migration_source(
    context: UseCaseContext, node_id: str, node_secret: str, alloc_id: str, wait_s: float
) -> MigrationSource:
    """Waits up to `wait_s` for the end of the previous allocation.

    Raises NotAllowedError for a wrong secret of the node, and NotFoundError for an allocation that
    is not the node's.
    """
    watch, clock = context.state.store.watch, context.clock
    deadline_s = clock.monotonic_s() + wait_s
    while True:
        with context.snapshot() as snapshot:
            index = snapshot.index
            node = snapshot.nodes.get(node_id)
            if node is None or not hmac.compare_digest(node.secret_id, node_secret):
                raise NotAllowedError(
                    f"cannot tell node {node_id} where data is: it is unknown, or the secret is "
                    "not the one it was registered with"
                )
            source, previous_id = _source(context, snapshot, node, alloc_id)
        left_s = deadline_s - clock.monotonic_s()
        if not source.runs or left_s <= 0:
            return source
        await watch.wait((target("allocations", previous_id), "nodes"), index, left_s)


def _source(
    context: UseCaseContext, snapshot: Snapshot, node: Node, alloc_id: str
) -> tuple[MigrationSource, str]:
    alloc = snapshot.allocations.get(alloc_id)
    if alloc is None or alloc.node_id != node.id:
        raise NotFoundError(f"cannot find allocation {alloc_id} of node {node.id}")
    previous = snapshot.allocations.get(alloc.previous_allocation)
    if previous is None or previous.node_id == node.id:
        why = "it is not known any more" if previous is None else "its files are not here any more"
        return MigrationSource(gone=why), ""
    holder = snapshot.nodes.get(previous.node_id)
    status = previous.client_status
    if holder is None or holder.status == NodeStatus.DOWN or status == ClientStatus.LOST:
        return MigrationSource(gone=f"its node {previous.node_id} is down or gone"), ""
    if not previous.is_client_terminal:
        return MigrationSource(runs=True), previous.id
    path = f"/v1/client/allocation/{previous.id}/snapshot"
    scheme = "https" if holder.tls_enabled else "http"
    return (
        MigrationSource(
            node_id=holder.id,
            url=f"{scheme}://{holder.http_addr}{path}",
            proof=proof(holder.secret_id, "GET", path, b"", context.now_ns()).decode(),
        ),
        "",
    )


def is_proven_taker(context: UseCaseContext, alloc_id: str, scope: Scope) -> bool:
    """Returns whether a request for an allocation's data carries the proof that a server gave to
    the node which takes the data over."""
    with context.snapshot() as snapshot:
        allocation = snapshot.allocations.get(alloc_id)
        node = snapshot.nodes.get(allocation.node_id) if allocation is not None else None
    values = [value for name, value in scope["headers"] if name == HEADER]
    if node is None or len(values) != 1:
        return False
    asked = scope["method"], scope["path"], scope["query_string"]
    return is_proven(node.secret_id, *asked, context.now_ns(), values[0])
