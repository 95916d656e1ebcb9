"""The cluster as the plan in progress would leave it: the node columns and the plan's changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from orchgit.model.allocation import Allocation
from orchgit.model.job_allocations import SteadyGroup
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources
from orchgit.scheduler.placement.networks import NodeNetworks, PortIndex, ports_of
from orchgit.scheduler.ports import ClusterView, Numbers

Counts = dict[int, int]
UNLIMITED = 1 << 30
_NOTHING: Mapping[str, SteadyGroup] = {}


class Proposed:
    """The usage of every row and the rows of the allocations of the job being scheduled.

    `touched` lists every row whose usage changed, in order: rankings follow it with a cursor.
    """

    def __init__(
        self,
        view: ClusterView,
        job_key: tuple[str, str],
        job_allocations: Iterable[Allocation],
        steady: Mapping[str, SteadyGroup] = _NOTHING,
    ) -> None:
        self.view = view
        self.job_key = job_key
        self.columns = view.columns
        self.touched: list[int] = []
        self.stopped: dict[int, dict[str, Allocation]] = defaultdict(dict)
        self.counts: dict[str, Counts] = defaultdict(dict)
        """Group -> row -> allocations of the job there that are not client-terminal."""
        self.added: Counts = defaultdict(int)
        """Row -> allocations that the plan adds there, less those that it ends."""
        self._usage: dict[int, list[int]] = {}
        self._records: dict[int, list[Allocation]] = defaultdict(list)
        self._port_indexes: dict[int, PortIndex] = {}
        self._placed_ports: dict[int, list[AllocatedPort]] = defaultdict(list)
        rows = self.columns.rows
        self.steady_rows = {
            name: [rows[node_id] for node_id in group.node_ids] for name, group in steady.items()
        }
        """Group -> rows of the job's steady allocations, which `job_allocations` leaves out."""
        for name, group_rows in self.steady_rows.items():
            self.counts[name].update(Counter(group_rows))
        for allocation in job_allocations:
            row = self.columns.rows.get(allocation.node_id)
            if row is not None and not allocation.is_client_terminal:
                self._count(allocation.task_group, row, 1)

    def usage(self, row: int) -> list[int]:
        """Returns [cpu, memory, disk] in use on the row; the list is live and must not be
        changed."""
        known = self._usage.get(row)
        if known is None:
            columns = self.columns
            known = [
                columns.cpu_used.item(row),
                columns.memory_used.item(row),
                columns.disk_used.item(row),
            ]
            self._usage[row] = known
        return known

    def usage_vectors(self) -> tuple[Numbers, Numbers, Numbers]:
        """Returns the usage of all rows; copies only if the plan changed something."""
        columns = self.columns
        vectors = (columns.cpu_used, columns.memory_used, columns.disk_used)
        if not self._usage:
            return vectors
        rows = np.fromiter(self._usage, dtype=np.int64, count=len(self._usage))
        values = np.array(list(self._usage.values()), dtype=np.int64)
        copies = tuple(vector.copy() for vector in vectors)
        for position, vector in enumerate(copies):
            vector[rows] = values[:, position]
        return copies  # type: ignore[return-value]

    def place(self, row: int, group: str, cpu: int, memory: int, disk: int) -> None:
        used = self.usage(row)
        used[0] += cpu
        used[1] += memory
        used[2] += disk
        self._count(group, row, 1)
        self.added[row] += 1
        self.touched.append(row)

    def take_ports(self, row: int, ports: list[AllocatedPort]) -> None:
        index = self.port_index(row)
        self._placed_ports[row].extend(ports)
        for port in ports:
            if not port.ignore_collision:
                index.take(port.host_ip, port.value)

    def record(self, row: int, allocation: Allocation) -> None:
        """Records what a placement holds besides cpu, memory, disk and group ports."""
        self._records[row].append(allocation)
        self._port_indexes.pop(row, None)

    def stop(self, allocation: Allocation) -> None:
        """Records that the plan stops the allocation, which frees its resources for the plan."""
        row = self.columns.rows.get(allocation.node_id)
        if row is not None and not allocation.is_client_terminal:
            self._change(row, allocation, -1)
            self.stopped[row][allocation.id] = allocation

    def keep_place(self, allocation: Allocation) -> None:
        """Counts a failed allocation that will be rescheduled as still placed on its row."""
        row = self.columns.rows.get(allocation.node_id)
        if row is not None and allocation.is_client_terminal:
            self._count(allocation.task_group, row, 1)
            self.touched.append(row)

    def unstop(self, allocation: Allocation) -> None:
        row = self.columns.rows.get(allocation.node_id)
        if row is not None and self.stopped[row].pop(allocation.id, None) is not None:
            self._change(row, allocation, 1)

    def _change(self, row: int, allocation: Allocation, sign: int) -> None:
        if allocation.allocated_resources is not None:
            total = allocation.allocated_resources.total()
            used = self.usage(row)
            used[0] += sign * total.cpu_shares
            used[1] += sign * total.memory_mb
            used[2] += sign * total.disk_mb
        if (allocation.namespace, allocation.job_id) == self.job_key:
            self._count(allocation.task_group, row, sign)
        self.added[row] += sign
        self._port_indexes.pop(row, None)
        self.touched.append(row)

    def free_slots(self, row: int) -> int:
        """Returns how many more allocations the node accepts; UNLIMITED if it has no limit."""
        node = self.columns.nodes[row]
        if node is None or not node.node_max_allocs:
            return UNLIMITED
        held = len(self.view.allocations_on_node(node.id))
        return node.node_max_allocs - held - self.added[row]

    def _count(self, group: str, row: int, change: int) -> None:
        counts = self.counts[group]
        counts[row] = counts.get(row, 0) + change

    def allocations_on(self, row: int) -> list[Allocation]:
        """Returns the allocations that are neither client-terminal nor stopped by the plan, and the
        plan's recorded placements."""
        node = self.columns.nodes[row]
        if node is None:
            return []
        stopped = self.stopped.get(row, {})
        existing = [a for a in self.view.allocations_on_node(node.id) if a.id not in stopped]
        return existing + self._records.get(row, [])

    def resources_on(self, row: int) -> list[AllocatedResources]:
        return [
            allocation.allocated_resources
            for allocation in self.allocations_on(row)
            if allocation.allocated_resources is not None
        ]

    def networks(self, row: int, node: Node) -> NodeNetworks:
        """Returns the node's networks; cached until a node changes."""
        memo = self.columns.memo
        known = memo.get(("networks", row))
        if known is None:
            known = memo["networks", row] = NodeNetworks(node)
        return known

    def port_index(self, row: int) -> PortIndex:
        """Returns the ports in use on the row, including those of this plan."""
        index = self._port_indexes.get(row)
        if index is None:
            index = self._port_indexes[row] = self._build_ports(row)
        return index

    def _build_ports(self, row: int) -> PortIndex:
        node = self.columns.nodes[row]
        assert node is not None, "only rows with a node are ranked"
        index = PortIndex(self.networks(row, node))
        stopped = self.stopped.get(row, {}).values()
        if any(allocation.is_server_terminal for allocation in stopped):
            # The allocation was to end already: its ports may belong to another one since.
            for resources in self.resources_on(row):
                index.take_resources(resources)
        else:
            self._take_columns(index, row, stopped)
        for placed in self._placed_ports.get(row, ()):
            index.take(placed.host_ip, placed.value)
        return index

    def _take_columns(self, index: PortIndex, row: int, stopped: Iterable[Allocation]) -> None:
        """Adds the ports of the columns and of the plan's placements, without those that the plan
        stops."""
        for address, ports in self.columns.used_ports(row).items():
            index.used[address] = set(ports)
        for allocation in stopped:
            if allocation.allocated_resources is not None:
                for address, port in ports_of(allocation.allocated_resources):
                    index.used.get(address, set()).discard(port)
        for allocation in self._records.get(row, ()):
            if allocation.allocated_resources is not None:
                index.take_resources(allocation.allocated_resources)

    def bandwidth_index(self, row: int) -> PortIndex:
        """Returns a port index that also knows the bandwidth in use (deprecated task networks)."""
        node = self.columns.nodes[row]
        assert node is not None, "only rows with a node are ranked"
        index = PortIndex(self.networks(row, node))
        for resources in self.resources_on(row):
            index.take_resources(resources)
        for placed in self._placed_ports.get(row, ()):
            index.take(placed.host_ip, placed.value)
        return index
