"""Nodes as the plan applier reads them, cached between plans: decoding costs more than checking."""

from __future__ import annotations

import msgspec

from orchgit.model.node import Node
from orchgit.state.snapshot import Snapshot


class NodeCache:
    """Caches decoded nodes. Call `refresh` before reading: it drops the nodes changed since the
    last refresh."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._index = 0
        self._count = 0

    def refresh(self, snapshot: Snapshot) -> None:
        """Drops nodes that are newer in the snapshot. A deleted node leaves no changed row, so a
        lower number of nodes empties the cache."""
        seen, self._index = self._index, snapshot.index
        if snapshot.table_indexes.newest("nodes") <= seen:
            return
        changed = snapshot.nodes.keys_changed_since(seen)
        for node_id, _ in changed:
            self._nodes.pop(node_id, None)
        created = sum(create_index > seen for _, create_index in changed)
        count = snapshot.nodes.count()
        if count != self._count + created:
            self._nodes.clear()
        self._count = count

    def node(self, snapshot: Snapshot, node_id: str) -> Node | None:
        """Returns the node without the fields that no plan check reads, which saves memory; None if
        it is unknown."""
        known = self._nodes.get(node_id)
        if known is None:
            read = snapshot.nodes.get(node_id)
            if read is None:
                return None
            known = self._nodes[node_id] = msgspec.structs.replace(
                read, attributes={}, meta={}, links={}, drivers={}, events=[]
            )
        return known
