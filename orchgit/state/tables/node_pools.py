"""Node pools."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.node import NodePool
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

NODE_POOLS = BodyTable("node_pools", NodePool, "name create_index modify_index")


class NodePoolReads(TableReads):
    def get(self, name: str) -> NodePool | None:
        return NODE_POOLS.get(self._connection, name)

    def all(self) -> list[NodePool]:
        return NODE_POOLS.find(self._connection)


class NodePoolWrites(NodePoolReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put_all(self, pools: Sequence[NodePool]) -> None:
        NODE_POOLS.put(self._connection, pools)
        self._entry.changed("node_pools", [pool.name for pool in pools])

    def delete_all(self, names: Sequence[str]) -> None:
        NODE_POOLS.delete(self._connection, names)
        self._entry.changed("node_pools", names)
