"""Placements in flight: submitted to the log, not yet in the snapshot that a scheduler reads.

A scheduler decides on the next job while its last plan is being committed. What that plan takes is
added to the columns, and to the allocations of a node, until a snapshot has it.
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
class _PlanInFlight:
    """The placements of one plan."""

    placements: list[Placements]
    index: int = 0
    """Where the plan lies in the log; 0 until its reply has come."""
    usage: tuple[Numbers, Numbers] | None = None
    """(rows of nodes, what is taken on each), computed for the columns' `layout`."""
    layout: int = -1


class InFlightPlacements:
    """The plans of one scheduler worker that are in flight.

    `submit` before a plan is sent; `resolve` when its reply has come. `remove_from` the columns
    before they are refreshed, `add_to` them after; from then on a submitted plan counts at once.
    """

    def __init__(self) -> None:
        self._plans: dict[str, _PlanInFlight] = {}
        self._columns: ClusterColumns | None = None
        """The columns that the plans are added to."""
        self._added: list[tuple[Numbers, Numbers]] = []
        self._ports: dict[int, Addresses] = {}

    def __bool__(self) -> bool:
        return bool(self._plans)

    def submit(self, plan_id: str, placements: list[Placements]) -> None:
        if not placements:
            return
        plan = self._plans[plan_id] = _PlanInFlight(placements)
        if self._columns is not None:
            self._add([plan], self._columns)

    def resolve(self, plan_id: str, placements: list[Placements], index: int) -> None:
        """These placements of the plan were committed at `index`; none if there are none."""
        plan = self._plans.get(plan_id)
        if plan is not None:
            plan.placements, plan.index, plan.usage = placements, index, None

    @property
    def resolved_index(self) -> int:
        """A snapshot at or after this index has every plan that was resolved."""
        return max((plan.index for plan in self._plans.values()), default=0)

    def remove_from(self, columns: ClusterColumns) -> None:
        """Leave the columns as the state has them, and forget plans of which nothing came."""
        self._columns = None
        for rows, usage in self._added:
            columns.change_usage(rows, -usage)
        self._added = []
        for plan_id in [plan_id for plan_id, plan in self._plans.items() if not plan.placements]:
            del self._plans[plan_id]

    def add_to(self, columns: ClusterColumns, snapshot: Snapshot) -> None:
        """Count the plans that the snapshot does not have; forget the others."""
        self._ports = {}
        columns.set_in_flight_ports(self._ports)
        for plan_id in [each for each, plan in self._plans.items() if _has(snapshot, plan)]:
            del self._plans[plan_id]
        if self._plans:
            self._add(list(self._plans.values()), columns)
        self._columns = columns

    def _add(self, plans: list[_PlanInFlight], columns: ClusterColumns) -> None:
        """Add all plans at once: each change of the columns has its price, however small."""
        parts = [_usage_of_plan(plan, columns) for plan in plans]
        rows = np.concatenate([part[0] for part in parts])
        usage = np.concatenate([part[1] for part in parts])
        columns.change_usage(rows, usage)
        self._added.append((rows, usage))
        for plan in plans:
            for placements in plan.placements:
                _add_ports(placements, columns, self._ports)

    def of_node(self, node_id: str) -> Iterator[Allocation]:
        """Yields the allocations in flight to this node."""
        for plan in self._plans.values():
            for placements in plan.placements:
                for row, placed_on in enumerate(placements.node_ids):
                    if placed_on == node_id:
                        yield _allocation(placements, row)


def _has(snapshot: Snapshot, plan: _PlanInFlight) -> bool:
    """Before the plan's reply has come, the first placement tells whether it was committed."""
    if plan.index:
        return snapshot.index >= plan.index
    return snapshot.allocations.has(plan.placements[0].alloc_ids[0])


def _usage_of_plan(plan: _PlanInFlight, columns: ClusterColumns) -> tuple[Numbers, Numbers]:
    if plan.usage is None or plan.layout != columns.layout:
        parts = [_usage_of(placements, columns) for placements in plan.placements]
        rows = np.concatenate([part[0] for part in parts])
        plan.usage = rows, np.concatenate([part[1] for part in parts])
        plan.layout = columns.layout
    return plan.usage


def _usage_of(placements: Placements, columns: ClusterColumns) -> tuple[Numbers, Numbers]:
    """Returns (rows of the nodes that the columns have, cpu, memory and disk taken on each)."""
    usual = _usage(placements.resources)
    own = {row: _usage(resources) for row, resources in placements.resources_of.items()}
    taken = [
        (columns.rows[node_id], own.get(row, usual))
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


def _usage(resources: AllocatedResources) -> tuple[int, int, int]:
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
