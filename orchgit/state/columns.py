"""The nodes of the cluster as numpy columns, with their usage, brought up to date by index.

A node has one row; the row of a deleted node is free until a new node takes it. A refresh reads
what changed since the last one: nodes that are new or changed, and the usage of nodes whose
allocations changed. Rows of the arrays move only during a refresh.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from orchgit.model.allocation import Allocation
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources
from orchgit.state.settings_cache import SettingsCache
from orchgit.state.snapshot import Snapshot

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
_PORTS = msgspec.msgpack.Decoder(list[AllocatedPort])
_FIRST_ROWS = 64
_USED = ("cpu_used", "memory_used", "disk_used")
_MEMO_LIMIT = 512
"""Entries; each is up to 8 bytes a node, and jobs with constraints of their own keep adding."""
_NEWEST = """SELECT (SELECT value FROM meta WHERE key = 'restored_index'),
    (SELECT idx FROM table_indexes WHERE name = 'nodes'),
    (SELECT idx FROM table_indexes WHERE name = 'allocations'),
    (SELECT max(idx) FROM table_indexes WHERE name IN (?, ?, ?))"""
_NEW_USAGE = """SELECT node_id, cpu_shares, memory_mb, disk_mb, ports FROM allocations
    WHERE usage_index > ? AND create_index > ?
    AND client_status NOT IN ('complete', 'failed', 'lost')"""
# The index is named: for DISTINCT the planner would read the whole table in the order of nodes.
CHANGED_NODES = """SELECT DISTINCT node_id FROM allocations INDEXED BY allocations_by_usage
    WHERE usage_index > ? AND create_index <= ?"""
_FREED_NODES = "SELECT node_id FROM freed_nodes WHERE freed_index > ?"
_NODE_USAGE = """SELECT sum(cpu_shares), sum(memory_mb), sum(disk_mb), count(ports) FROM allocations
    WHERE node_id = ? AND client_status NOT IN ('complete', 'failed', 'lost')"""
_NODE_PORTS = """SELECT ports FROM allocations WHERE node_id = ? AND ports IS NOT NULL
    AND client_status NOT IN ('complete', 'failed', 'lost')"""
Usage = tuple[int, int, int]
_LAYOUTS = itertools.count()
"""Counted over all `ClusterColumns`, since a refresh may begin anew."""


class ClusterColumns:
    """See `orchgit.scheduler.ports.NodeColumns` for what the attributes mean."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.memo: dict[Hashable, Any] = {}
        self.layout = next(_LAYOUTS)
        """Changes whenever a node gets or loses a row."""
        self.settings_cache = SettingsCache()
        """The settings of the state that the columns were refreshed to."""
        self._size = 0
        self._numbers = {
            name: np.zeros(_FIRST_ROWS, dtype=np.int64)
            for name in ("class", "cpu", "memory", "disk", "cpu_used", "memory_used", "disk_used")
        }
        self._ready = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self._classes: dict[str, int] = {}
        self._free_rows: list[int] = []
        self._ports: dict[int, dict[str, set[int]]] = {}
        self._in_flight_ports: Mapping[int, Mapping[str, set[int]]] = {}
        self._index = 0
        self._restored_index = 0

    # --- what the scheduler reads ---------------------------------------------------------

    @property
    def ready(self) -> Mask:
        return self._ready[: self._size]

    @property
    def class_codes(self) -> Numbers:
        return self._numbers["class"][: self._size]

    @property
    def cpu_capacity(self) -> Numbers:
        return self._numbers["cpu"][: self._size]

    @property
    def memory_capacity(self) -> Numbers:
        return self._numbers["memory"][: self._size]

    @property
    def disk_capacity(self) -> Numbers:
        return self._numbers["disk"][: self._size]

    @property
    def cpu_used(self) -> Numbers:
        return self._numbers["cpu_used"][: self._size]

    @property
    def memory_used(self) -> Numbers:
        return self._numbers["memory_used"][: self._size]

    @property
    def disk_used(self) -> Numbers:
        return self._numbers["disk_used"][: self._size]

    def used_ports(self, row: int) -> Mapping[str, set[int]]:
        used, in_flight = self._ports.get(row, {}), self._in_flight_ports.get(row)
        if in_flight is None:
            return used
        return {ip: used.get(ip, set()) | in_flight.get(ip, set()) for ip in {*used, *in_flight}}

    # --- changes --------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Add a node, or change a known one, whose usage stays."""
        self.memo.clear()
        row = self.rows.get(node.id)
        if row is None:
            row = self._new_row()
            self.rows[node.id] = row
        resources, reserved = node.node_resources, node.reserved_resources
        self.nodes[row] = node
        numbers = self._numbers
        numbers["class"][row] = self._classes.setdefault(node.computed_class, len(self._classes))
        numbers["cpu"][row] = resources.cpu.cpu_shares - reserved.cpu.cpu_shares
        numbers["memory"][row] = resources.memory.memory_mb - reserved.memory.memory_mb
        numbers["disk"][row] = resources.disk.disk_mb - reserved.disk.disk_mb
        self._ready[row] = node.is_ready

    def _new_row(self) -> int:
        self.layout = next(_LAYOUTS)
        if self._free_rows:
            return self._free_rows.pop()
        row = self._size
        self._size += 1
        self.nodes.append(None)
        if row >= len(self._ready):
            self._numbers = {
                name: np.concatenate([column, np.zeros_like(column)])
                for name, column in self._numbers.items()
            }
            self._ready = np.concatenate([self._ready, np.zeros_like(self._ready)])
        return row

    def remove_node(self, node_id: str) -> None:
        row = self.rows.pop(node_id, None)
        if row is None:
            return
        self.memo.clear()
        self.layout = next(_LAYOUTS)
        self.nodes[row] = None
        for column in self._numbers.values():
            column[row] = 0
        self._ready[row] = False
        self._ports.pop(row, None)
        self._free_rows.append(row)

    def add_usage(self, node_id: str, usage: Usage, ports: Iterable[AllocatedPort] = ()) -> None:
        """Count one more allocation that is not client-terminal."""
        row = self.rows.get(node_id)
        if row is None:
            return
        numbers = self._numbers
        numbers["cpu_used"][row] += usage[0]
        numbers["memory_used"][row] += usage[1]
        numbers["disk_used"][row] += usage[2]
        for port in ports:
            if not port.ignore_collision:
                self._ports.setdefault(row, {}).setdefault(port.host_ip, set()).add(port.value)

    def change_usage(self, rows: Numbers, usage: Numbers) -> None:
        """Add (cpu, memory, disk) to the usage of each of `rows`, which may repeat."""
        if len(rows) == 1:
            for name, more in zip(_USED, usage[0], strict=True):
                self._numbers[name][rows[0]] += more
            return
        for position, name in enumerate(_USED):
            np.add.at(self._numbers[name], rows, usage[:, position])

    def set_in_flight_ports(self, ports: Mapping[int, Mapping[str, set[int]]]) -> None:
        """`ports`: row -> address -> ports taken by placements in flight."""
        self._in_flight_ports = ports

    def add_allocation(self, allocation: Allocation) -> None:
        resources = allocation.allocated_resources
        if resources is None or allocation.is_client_terminal:
            return
        total = resources.total()
        usage = (total.cpu_shares, total.memory_mb, total.disk_mb)
        self.add_usage(allocation.node_id, usage, _ports_of(resources))

    # --- refresh --------------------------------------------------------------------------

    def refresh(self, snapshot: Snapshot) -> None:
        """Bring the columns to the snapshot's index.

        They begin anew for an index before the last one, and for a restored state.
        """
        index = snapshot.index
        if index == self._index:
            return
        newest = snapshot.connection.execute(_NEWEST, SettingsCache.TABLES).fetchone()
        restored_index, nodes_index, allocations_index, settings_index = (at or 0 for at in newest)
        if index < self._index or restored_index != self._restored_index:
            self.__init__()  # type: ignore[misc]
        self._restored_index = restored_index
        if len(self.memo) > _MEMO_LIMIT:
            self.memo.clear()
        known = self._index
        self._index = index
        counted: Collection[str] = ()
        if settings_index > known:
            self.settings_cache = SettingsCache()
        if nodes_index > known:
            counted = self._refresh_nodes(snapshot, known)
        if allocations_index > known:
            self._refresh_usage(snapshot, known, counted)

    def _refresh_nodes(self, snapshot: Snapshot, known: int) -> Collection[str]:
        """Returns the ids of new nodes, whose usage is counted from all their allocations."""
        changed = snapshot.nodes.changed_since(known)
        fresh = [node.id for node in changed if node.id not in self.rows]
        for node in changed:
            self.put_node(node)
        if snapshot.nodes.count() != len(self.rows):
            present = snapshot.nodes.ids()
            for node_id in [node_id for node_id in self.rows if node_id not in present]:
                self.remove_node(node_id)
        if not known:
            return ()
        self._recount(snapshot, fresh)
        return fresh

    def _refresh_usage(self, snapshot: Snapshot, known: int, counted: Collection[str]) -> None:
        """Add the usage of new allocations. A node where an allocation takes more or less than
        before, or where allocations were deleted, is counted anew."""
        execute = snapshot.connection.execute
        touched = {cast(str, row[0]) for row in execute(CHANGED_NODES, (known, known))}
        touched |= {cast(str, row[0]) for row in execute(_FREED_NODES, (known,))}
        self._recount(snapshot, touched)
        touched.update(counted)
        for node_id, *usage in execute(_NEW_USAGE, (known, known)):
            if node_id not in touched:
                cpu, memory, disk, ports = usage
                used = _PORTS.decode(ports) if ports else ()
                self.add_usage(node_id, (cpu, memory, disk), used)

    def _recount(self, snapshot: Snapshot, node_ids: Iterable[str]) -> None:
        for node_id in node_ids:
            row = self.rows.get(node_id)
            if row is not None:
                for name in _USED:
                    self._numbers[name][row] = 0
                self._ports.pop(row, None)
                self._count_allocations(snapshot, node_id)

    def _count_allocations(self, snapshot: Snapshot, node_id: str) -> None:
        execute = snapshot.connection.execute
        cpu, memory, disk, with_ports = execute(_NODE_USAGE, (node_id,)).fetchone()
        self.add_usage(node_id, (cpu or 0, memory or 0, disk or 0))
        for (ports,) in execute(_NODE_PORTS, (node_id,)) if with_ports else ():
            self.add_usage(node_id, (0, 0, 0), _PORTS.decode(ports))


def _ports_of(resources: AllocatedResources) -> list[AllocatedPort]:
    """Returns all ports, also those of older shapes: networks of groups and tasks without a
    list."""
    if resources.shared.ports:
        return resources.shared.ports
    networks = list(resources.shared.networks or ())
    for task in resources.tasks.values():
        networks += task.networks or ()
    return [
        AllocatedPort(label=port.label, value=port.value, to=port.to, host_ip=network.ip)
        for network in networks
        for port in (network.reserved_ports or []) + (network.dynamic_ports or [])
        if port.value > 0
    ]
