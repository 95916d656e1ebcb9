"""Nodes, node pools, namespaces and the scheduler's settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from orchgit.model.node import Namespace, Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.state.body_table import BodyTable, starting_with
from orchgit.state.tables.base import Reads, Writes

NODES = BodyTable(
    "nodes",
    Node,
    "id name datacenter node_pool node_class computed_class status scheduling_eligibility drain "
    "last_missed_heartbeat_index last_alloc_update_index create_index modify_index",
)
NODE_POOLS = BodyTable("node_pools", NodePool, "name create_index modify_index")
NAMESPACES = BodyTable("namespaces", Namespace, "name create_index modify_index")

_NODE = msgspec.msgpack.Decoder(Node)
_CONFIG = msgspec.msgpack.Decoder(SchedulerConfig)
_NODE_COLUMNS = "last_missed_heartbeat_index, last_alloc_update_index, body"


def _node(row: Sequence[object]) -> Node:
    missed, updated, body = row
    node = _NODE.decode(cast(bytes, body))
    node.last_missed_heartbeat_index = cast(int, missed)
    node.last_alloc_update_index = cast(int, updated)
    return node


class NodeReads(Reads):
    def node(self, node_id: str) -> Node | None:
        sql = f"SELECT {_NODE_COLUMNS} FROM nodes WHERE id = ?"  # noqa: S608 (constant names)
        row = self.connection.execute(sql, (node_id,)).fetchone()
        return _node(row) if row else None

    def nodes(self, prefix: str = "") -> list[Node]:
        where, values = starting_with("id", prefix)
        return self._nodes(where, values)

    def nodes_in_pool(self, pool: str) -> list[Node]:
        return self._nodes("node_pool = ?", [pool])

    def nodes_changed_since(self, index: int) -> list[Node]:
        """Those whose modify index is beyond `index`; deleted ones are not seen here."""
        return self._nodes("modify_index > ?", [index])

    def node_keys_changed_since(self, index: int) -> list[tuple[str, int]]:
        """(id, create index) of those whose modify index is beyond `index`."""
        rows = self._rows("SELECT id, create_index FROM nodes WHERE modify_index > ?", [index])
        return cast(list[tuple[str, int]], rows)

    def node_count(self) -> int:
        return self._number("SELECT count(*) FROM nodes")

    def _nodes(self, where: str, values: Sequence[object]) -> list[Node]:
        condition = f"WHERE {where}" if where else ""
        sql = f"SELECT {_NODE_COLUMNS} FROM nodes {condition} ORDER BY id"  # noqa: S608
        return [_node(row) for row in self._rows(sql, values)]

    def node_pools(self) -> list[NodePool]:
        return NODE_POOLS.find(self.connection)

    def node_pool(self, name: str) -> NodePool | None:
        return NODE_POOLS.get(self.connection, name)

    def namespaces(self) -> list[Namespace]:
        return NAMESPACES.find(self.connection)

    def namespace_count(self) -> int:
        return self._number("SELECT count(*) FROM namespaces")

    def namespace(self, name: str) -> Namespace | None:
        return NAMESPACES.get(self.connection, name)

    def scheduler_config(self) -> SchedulerConfig:
        """The stored settings, or the defaults."""
        row = self.connection.execute("SELECT body FROM scheduler_config").fetchone()
        return _CONFIG.decode(row[0]) if row else SchedulerConfig()


class NodeWrites(NodeReads, Writes):
    def put_node(self, node: Node) -> None:
        """Its indexes are the caller's."""
        NODES.put(self.connection, [node])
        self._changed("nodes", [node.id])

    def stamp_alloc_update(self, node_id: str) -> bool:
        """Record that the node's agent reported at this index; False: there is no such node.

        Neither the node nor its table counts as changed: this happens at every report.
        """
        sql = "UPDATE nodes SET last_alloc_update_index = ? WHERE id = ?"
        return self.connection.execute(sql, (self.index, node_id)).rowcount == 1

    def delete_nodes(self, node_ids: Sequence[str]) -> None:
        NODES.delete(self.connection, node_ids)
        self._changed("nodes", node_ids)

    def put_node_pools(self, pools: Sequence[NodePool]) -> None:
        NODE_POOLS.put(self.connection, pools)
        self._changed("node_pools", [pool.name for pool in pools])

    def delete_node_pools(self, names: Sequence[str]) -> None:
        NODE_POOLS.delete(self.connection, names)
        self._changed("node_pools", names)

    def has_namespace(self, name: str) -> bool:
        if name not in self.remembered.namespaces and self.namespace(name) is not None:
            self.remembered.namespaces.add(name)
        return name in self.remembered.namespaces

    def put_namespaces(self, namespaces: Sequence[Namespace]) -> None:
        NAMESPACES.put(self.connection, namespaces)
        self._changed("namespaces", [namespace.name for namespace in namespaces])

    def delete_namespaces(self, names: Sequence[str]) -> None:
        NAMESPACES.delete(self.connection, names)
        self.remembered.namespaces.difference_update(names)
        self._changed("namespaces", names)

    def put_scheduler_config(self, config: SchedulerConfig) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO scheduler_config VALUES (1, ?, ?, ?)",
            (config.create_index, config.modify_index, msgspec.msgpack.encode(config)),
        )
        self._changed("scheduler_config", ["config"])
