"""Assigns cores of a node to tasks, with regard to NUMA nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchgit.model.node import Node
from orchgit.model.resources import AllocatedResources

NONE, PREFER, REQUIRE = "none", "prefer", "require"

Given = dict[str, tuple[list[int], int]]
"""Task -> (core ids, the sum of their MHz)."""
Suits = Callable[[str, int], bool]
"""Returns whether a NUMA node has the devices that a task needs there, and takes them."""


def assign_cores(
    node: Node,
    in_use: Sequence[AllocatedResources],
    wanted: Mapping[str, int],
    numa: Mapping[str, str],
    suits: Suits = lambda task, place: True,
) -> Given | None:
    """Returns the cores (lowest free ids first) and their MHz for each task; None if there are too
    few. A task with `prefer` or `require` in `numa` gets cores of one NUMA node that `suits` it, if
    possible or else not at all; other tasks get cores of the NUMA nodes with the fewest free
    ones."""
    speeds = core_speeds(node)
    topology = _Topology(node)
    free = _free_cores(node, in_use, speeds)
    given: Given = {}
    for task in sorted(wanted, key=lambda name: numa.get(name, "") not in (PREFER, REQUIRE)):
        ids = _choose(free, task, wanted[task], numa.get(task, ""), topology, suits)
        if ids is None:
            return None
        free = [core for core in free if core not in ids]
        given[task] = (ids, sum(speeds.get(core, 0) for core in ids))
    return {task: given[task] for task in wanted}


def _choose(
    free: list[int], task: str, count: int, affinity: str, topology: _Topology, suits: Suits
) -> list[int] | None:
    if affinity in (PREFER, REQUIRE):
        for place, cores in topology.smallest_first(free, count):
            if suits(task, place):
                return cores[:count]
        if affinity == REQUIRE:
            return None
    if len(free) < count:
        return None
    if affinity == PREFER:
        return topology.nearest(free, count)
    return sorted(topology.leftovers(free)[:count]) if affinity == NONE else free[:count]


class _Topology:
    """The distribution of a node's cores over its NUMA nodes."""

    def __init__(self, node: Node) -> None:
        self._place_of = numa_nodes(node)
        self._distances = numa_distances(node)

    def _by_place(self, free: Sequence[int]) -> dict[int, list[int]]:
        places: defaultdict[int, list[int]] = defaultdict(list)
        for core in free:
            places[self._place_of.get(core, 0)].append(core)
        return places

    def smallest_first(self, free: Sequence[int], count: int) -> Iterator[tuple[int, list[int]]]:
        """Yields the NUMA nodes with at least `count` free cores, fewest first, so that others stay
        whole."""
        places = self._by_place(free)
        for place in sorted(places, key=lambda place: (len(places[place]), place)):
            if len(places[place]) >= count:
                yield place, places[place]

    def leftovers(self, free: Sequence[int]) -> list[int]:
        return [core for _, cores in self.smallest_first(free, 0) for core in cores]

    def nearest(self, free: Sequence[int], count: int) -> list[int]:
        """Returns the cores with the smallest sum of distances from one of the NUMA nodes."""
        starts = sorted(self._by_place(free))
        sets = [
            sorted(free, key=lambda c: (self._distance(start, c), c))[:count] for start in starts
        ]
        sums = [
            (sum(self._distance(start, core) for core in cores), position)
            for position, (start, cores) in enumerate(zip(starts, sets, strict=True))
        ]
        return sorted(sets[min(sums)[1]])

    def _distance(self, start: int, core: int) -> int:
        place = self._place_of.get(core, 0)
        return self._distances.get((start, place), 0 if place == start else 1)


def _free_cores(
    node: Node, in_use: Sequence[AllocatedResources], speeds: Mapping[int, int]
) -> list[int]:
    reservable = node.node_resources.cpu.reservable_cpu_cores
    taken = set(node.reserved_resources.cpu.reserved_cpu_cores or ())
    for resources in in_use:
        for task in resources.tasks.values():
            taken.update(task.cpu.reserved_cores or ())
    return sorted(set(speeds if reservable is None else reservable) - taken)


def _topology(node: Node) -> dict[str, Any]:
    topology = (node.node_resources.processors or {}).get("Topology")
    return topology if isinstance(topology, dict) else {}


def core_speeds(node: Node) -> dict[int, int]:
    """Returns the MHz of every core, by core id."""
    cores = _topology(node).get("Cores")
    if cores:
        return {
            int(c["ID"]): int(c.get("BaseSpeed") or c.get("GuessSpeed") or c.get("MaxSpeed") or 0)
            for c in cores
        }
    cpu = node.node_resources.cpu
    each = cpu.cpu_shares // max(cpu.total_cpu_cores, 1)
    return dict.fromkeys(cpu.reservable_cpu_cores or range(cpu.total_cpu_cores), each)


def numa_nodes(node: Node) -> dict[int, int]:
    """Returns the NUMA node of every core, by core id."""
    cores = _topology(node).get("Cores") or ()
    return {int(core["ID"]): int(core.get("NodeID") or 0) for core in cores}


def numa_distances(node: Node) -> dict[tuple[int, int], int]:
    """Returns the distances between NUMA nodes that the kernel reports, by (from, to)."""
    topology = _topology(node)
    places = topology.get("Nodes") or ()
    return {
        (int(first), int(second)): int(distance)
        for first, row in zip(places, topology.get("Distances") or (), strict=False)
        for second, distance in zip(places, row, strict=False)
    }


def numa_node_of_bus(node: Node) -> dict[str, int]:
    """Returns the NUMA node of every PCI bus id."""
    buses = _topology(node).get("BusAssociativity") or {}
    return {str(bus): int(place) for bus, place in buses.items()}
