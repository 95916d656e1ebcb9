"""Placements on their way to the log, counted by who sent them as if they were there already.

A scheduler decides on the next job while its last plan is being committed. What that plan takes is
laid over the columns and the allocations of a node until a snapshot has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from orchgit.model.allocation import Allocation, alloc_name
from orchgit.model.plan import Placements
from orchgit.model.resources import AllocatedPort, AllocatedResources
from orchgit.state.columns import ClusterColumns, Numbers
from orchgit.state.snapshot import Snapshot

Addresses = dict[str, set[int]]


@dataclass
class _OnTheWay:
    """One plan's placements. `index` is where they lie in the log, once that is known. `taken`:
    (rows, what is taken on each), worked out when the columns had their rows in `layout`."""

    placements: list[Placements]
    index: int = 0
    taken: tuple[Numbers, Numbers] | None = None
    layout: int = -1


class InFlightPlacements:
    """`expect` before a plan is sent; `settle` when its answer is there.

    `take_off` before the columns are refreshed, `put_on` after it; from then on what is expected
    counts at once.
    """

    def __init__(self) -> None:
        self._plans: dict[str, _OnTheWay] = {}
        self._columns: ClusterColumns | None = None
        """What the plans are laid over."""
        self._laid: list[tuple[Numbers, Numbers]] = []
        self._ports: dict[int, Addresses] = {}

    def __bool__(self) -> bool:
        return bool(self._plans)

    def submit(self, plan_id: str, placements: list[Placements]) -> None:
        if not placements:
            return
        plan = self._plans[plan_id] = _OnTheWay(placements)
        if self._columns is not None:
            self._lay([plan], self._columns)

    def resolve(self, plan_id: str, placements: list[Placements], index: int) -> None:
        """What became of a plan: these placements at this index; none of it when it is empty."""
        known = self._plans.get(plan_id)
        if known is not None:
            known.placements, known.index, known.taken = placements, index, None

    @property
    def settled_index(self) -> int:
        """A snapshot at or after it has everything that was settled."""
        return max((plan.index for plan in self._plans.values()), default=0)

    # -- over the columns ----------------------------------------------------------------------

    def take_off(self, columns: ClusterColumns) -> None:
        """Leave the columns as the state has them, and forget what did not come to be."""
        self._columns = None
        for rows, usage in self._laid:
            columns.change_usage(rows, -usage)
        self._laid = []
        for plan_id in [plan_id for plan_id, plan in self._plans.items() if not plan.placements]:
            del self._plans[plan_id]

    def put_on(self, columns: ClusterColumns, snapshot: Snapshot) -> None:
        """Count what the snapshot does not have yet."""
        self._ports = {}
        columns.expect_ports(self._ports)
        for plan_id in [each for each, plan in self._plans.items() if _has(snapshot, plan)]:
            del self._plans[plan_id]
        if self._plans:
            self._lay(list(self._plans.values()), columns)
        self._columns = columns

    def _lay(self, plans: list[_OnTheWay], columns: ClusterColumns) -> None:
        """All of them at once: each change of the columns has its price, however small."""
        parts = [_taken_by(plan, columns) for plan in plans]
        rows = np.concatenate([part[0] for part in parts])
        usage = np.concatenate([part[1] for part in parts])
        columns.change_usage(rows, usage)
        self._laid.append((rows, usage))
        for plan in plans:
            for placements in plan.placements:
                _add_ports(placements, columns, self._ports)

    def on_node(self, node_id: str) -> Iterator[Allocation]:
        """The allocations that are on their way to this node."""
        for plan in self._plans.values():
            for placements in plan.placements:
                for row, placed_on in enumerate(placements.node_ids):
                    if placed_on == node_id:
                        yield _allocation(placements, row)


def _has(snapshot: Snapshot, plan: _OnTheWay) -> bool:
    """Whether the snapshot has the placements; before the answer a look at the first one tells."""
    if plan.index:
        return snapshot.index >= plan.index
    first = plan.placements[0].alloc_ids[0]
    found = snapshot.connection.execute("SELECT 1 FROM allocations WHERE id = ?", (first,))
    return found.fetchone() is not None


def _taken_by(plan: _OnTheWay, columns: ClusterColumns) -> tuple[Numbers, Numbers]:
    if plan.taken is None or plan.layout != columns.layout:
        parts = [_usage_of(placements, columns) for placements in plan.placements]
        rows = np.concatenate([part[0] for part in parts])
        plan.taken = rows, np.concatenate([part[1] for part in parts])
        plan.layout = columns.layout
    return plan.taken


def _usage_of(placements: Placements, columns: ClusterColumns) -> tuple[Numbers, Numbers]:
    """(rows of nodes that are there, cpu, memory and disk that each row is given more)"""
    totals = placements.resources.total()
    usual = (totals.cpu_shares, totals.memory_mb, totals.disk_mb)
    taken = [
        (columns.rows[node_id], _own_usage(placements.resources_of.get(row)) or usual)
        for row, node_id in enumerate(placements.node_ids)
        if node_id in columns.rows
    ]
    rows = np.array([row for row, _ in taken], dtype=np.int64)
    return rows, np.array([usage for _, usage in taken], dtype=np.int64).reshape(-1, 3)


def _add_ports(
    placements: Placements, columns: ClusterColumns, ports: dict[int, Addresses]
) -> None:
    if not placements.ports and not placements.resources_of:
        return
    for position, node_id in enumerate(placements.node_ids):
        row = columns.rows.get(node_id)
        if row is None:
            continue
        for port in _ports_of(placements, position):
            if not port.ignore_collision:
                ports.setdefault(row, {}).setdefault(port.host_ip, set()).add(port.value)


def _own_usage(resources: AllocatedResources | None) -> tuple[int, int, int] | None:
    if resources is None:
        return None
    total = resources.total()
    return (total.cpu_shares, total.memory_mb, total.disk_mb)


def _ports_of(placements: Placements, row: int) -> Iterable[AllocatedPort]:
    if placements.ports and placements.ports[row]:
        return placements.ports[row]
    own = placements.resources_of.get(row)
    return (own.shared.ports if own is not None else None) or ()


def _allocation(placements: Placements, row: int) -> Allocation:
    resources = placements.resources_of.get(row, placements.resources)
    if placements.ports and placements.ports[row]:
        shared = replace(resources.shared, ports=placements.ports[row])
        resources = replace(resources, shared=shared)
    name = alloc_name(placements.job_id, placements.task_group, placements.name_indexes[row])
    return Allocation(
        id=placements.alloc_ids[row],
        namespace=placements.namespace,
        eval_id=placements.eval_id,
        name=name,
        node_id=placements.node_ids[row],
        node_name=placements.node_names[row],
        job_id=placements.job_id,
        job_version=placements.job_version,
        job_type=placements.job_type,
        task_group=placements.task_group,
        allocated_resources=resources,
        deployment_id=placements.deployment_id,
    )
