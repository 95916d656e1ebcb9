"""The applier's nodes: remembered, and never older than the snapshot they are asked with."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchgit.control.plans.node_cache import NodeCache
from orchgit.model.node import Node
from orchgit.replication.commands.nodes import (
    DeleteNodes,
    RegisterNode,
    UpdateNodeEligibility,
    UpdateNodeStatus,
)
from tests.support.factories import make_node
from tests.support.state import apply, open_store

_NODES = [make_node() for _ in range(3)]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete", "down", "ready", "ineligible", "look"]),
        st.integers(0, 2),
    ),
    max_size=20,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=_STEPS)
def test_node_cache_agrees_with_the_snapshot_about_every_node(
    tmp_path_factory: object, steps: list[tuple[str, int]]
) -> None:
    directory: Path = tmp_path_factory.mktemp("book")  # type: ignore[attr-defined]
    store, book = open_store(directory), NodeCache()
    try:
        for kind, number in [*steps, ("look", 0)]:
            node = _NODES[number]
            with store.snapshot() as snapshot:
                known = snapshot.nodes.get(node.id) is not None
            if kind == "register":
                apply(store, RegisterNode(node=_changed(node, number)))
            elif kind == "delete" and known:
                apply(store, DeleteNodes(node_ids=[node.id]))
            elif kind in ("down", "ready") and known:
                apply(store, UpdateNodeStatus(node_id=node.id, status=kind))
            elif kind == "ineligible" and known:
                apply(store, UpdateNodeEligibility(node_id=node.id, eligibility="ineligible"))
            elif kind == "look":
                _compare(store, book)
    finally:
        store.close()


def _changed(node: Node, number: int) -> Node:
    return msgspec.structs.replace(
        node, node_max_allocs=number, status="initializing", create_index=0, modify_index=0
    )


def _compare(store, book: NodeCache) -> None:  # type: ignore[no-untyped-def]
    with store.snapshot() as snapshot:
        book.refresh(snapshot)
        for each in _NODES:
            real, found = snapshot.nodes.get(each.id), book.node(snapshot, each.id)
            assert (real is None) == (found is None)
            if real is not None and found is not None:
                assert found.status == real.status
                assert found.scheduling_eligibility == real.scheduling_eligibility
                assert found.modify_index == real.modify_index
                assert found.node_resources == real.node_resources
