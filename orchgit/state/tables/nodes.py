"""Nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from orchgit.model.node import Eligibility, Node, NodeStatus
from orchgit.state.body_table import BodyTable, starting_with
from orchgit.state.chunks import chunks
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

NODES = BodyTable(
    "nodes",
    Node,
    "id name datacenter node_pool node_class computed_class status scheduling_eligibility drain "
    "last_missed_heartbeat_index last_alloc_update_index create_index modify_index",
)

_NODE = msgspec.msgpack.Decoder(Node)
_CHUNK = 500
_READY = (
    f"status = '{NodeStatus.READY}' AND drain = 0 AND "
    f"scheduling_eligibility = '{Eligibility.ELIGIBLE}'"
)
_COLUMNS = "last_missed_heartbeat_index, last_alloc_update_index, body"


def _marks(chunk: Sequence[object]) -> str:
    return ", ".join("?" * len(chunk))


def _node(row: Sequence[object]) -> Node:
    missed, updated, body = row
    node = _NODE.decode(cast(bytes, body))
    node.last_missed_heartbeat_index = cast(int, missed)
    node.last_alloc_update_index = cast(int, updated)
    return node


class NodeReads(TableReads):
    def get(self, node_id: str) -> Node | None:
        sql = f"SELECT {_COLUMNS} FROM nodes WHERE id = ?"  # noqa: S608 (constant names)
        row = self._connection.execute(sql, (node_id,)).fetchone()
        return _node(row) if row else None

    def all(self, prefix: str = "") -> list[Node]:
        """`prefix` of their ids."""
        where, values = starting_with("id", prefix)
        return self._nodes(where, values)

    def of_status(self, status: str) -> list[Node]:
        return self._nodes("status = ?", [status])

    def of_pool(self, pool: str) -> list[Node]:
        return self._nodes("node_pool = ?", [pool])

    def changed_since(self, index: int) -> list[Node]:
        """Returns the nodes whose modify index is beyond `index`; deleted ones are not seen."""
        return self._nodes("modify_index > ?", [index])

    def keys_changed_since(self, index: int) -> list[tuple[str, int]]:
        """Returns (id, create index) of the nodes whose modify index is beyond `index`."""
        rows = self._rows("SELECT id, create_index FROM nodes WHERE modify_index > ?", [index])
        return cast(list[tuple[str, int]], rows)

    def count(self) -> int:
        return self._number("SELECT count(*) FROM nodes")

    def count_by_status(self) -> dict[str, int]:
        rows = self._rows("SELECT status, count(*) FROM nodes GROUP BY status ORDER BY status")
        return {str(status): cast(int, count) for status, count in rows}

    def ids(self) -> set[str]:
        return {cast(str, id_) for (id_,) in self._rows("SELECT id FROM nodes")}

    def ids_up(self) -> list[str]:
        """Returns the nodes that are not down."""
        return self._ids(f"status != '{NodeStatus.DOWN}'")

    def ids_draining(self, among: Iterable[str] | None = None) -> list[str]:
        """Returns the nodes that drain, of all nodes or of these."""
        if among is None:
            return self._ids("drain = 1")
        return [
            node_id
            for chunk in chunks(among, _CHUNK)
            for node_id in self._ids(f"drain = 1 AND id IN ({_marks(chunk)})", chunk)
        ]

    def classes_of_ready(self, node_ids: Iterable[str]) -> dict[str, str]:
        """Returns those of the nodes on which allocations may be placed -> computed class."""
        found: dict[str, str] = {}
        for chunk in chunks(node_ids, _CHUNK):
            sql = f"""SELECT id, computed_class FROM nodes
                WHERE id IN ({_marks(chunk)}) AND {_READY}"""  # noqa: S608
            found.update(cast(list[tuple[str, str]], self._rows(sql, chunk)))
        return found

    def all_ready(self) -> list[tuple[str, str, int]]:
        """Returns (id, computed class, modify index) of the nodes on which allocations may be
        placed."""
        sql = f"SELECT id, computed_class, modify_index FROM nodes WHERE {_READY}"  # noqa: S608
        return cast(list[tuple[str, str, int]], self._rows(sql))

    def _ids(self, where: str, values: Sequence[object] = ()) -> list[str]:
        sql = f"SELECT id FROM nodes WHERE {where} ORDER BY id"  # noqa: S608 (constant conditions)
        return [cast(str, id_) for (id_,) in self._rows(sql, values)]

    def _nodes(self, where: str, values: Sequence[object]) -> list[Node]:
        condition = f"WHERE {where}" if where else ""
        sql = f"SELECT {_COLUMNS} FROM nodes {condition} ORDER BY id"  # noqa: S608
        return [_node(row) for row in self._rows(sql, values)]


class NodeWrites(NodeReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, node: Node) -> None:
        """The caller sets the indexes."""
        NODES.put(self._connection, [node])
        self._entry.changed("nodes", [node.id])

    def stamp_alloc_update(self, node_id: str) -> bool:
        """Record that the node's agent reported at this index; False: there is no such node.

        Neither the node nor its table counts as changed: this happens at every report.
        """
        sql = "UPDATE nodes SET last_alloc_update_index = ? WHERE id = ?"
        return self._connection.execute(sql, (self._entry.index, node_id)).rowcount == 1

    def delete_all(self, node_ids: Sequence[str]) -> None:
        NODES.delete(self._connection, node_ids)
        self._entry.changed("nodes", node_ids)
