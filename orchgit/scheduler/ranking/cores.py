"""Which cores of a node a task is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from orchgit.model.node import Node
from orchgit.model.resources import AllocatedResources

PREFER, REQUIRE = "prefer", "require"

Given = dict[str, tuple[list[int], int]]
"""Task -> (core ids, their MHz together)."""


def give_cores(
    node: Node,
    in_use: Sequence[AllocatedResources],
    wanted: Mapping[str, int],
    numa: Mapping[str, str],
) -> Given | None:
    """Lowest free ids first. A task in `numa` wants all of its cores on one NUMA node if that is
    possible (`prefer`), or not at all (`require`). None: there are too few."""
    speeds = core_speeds(node)
    places = numa_nodes(node)
    free = _free_cores(node, in_use, speeds)
    given: Given = {}
    for task, count in wanted.items():
        ids = _choose(free, count, numa.get(task, ""), places)
        if ids is None:
            return None
        free = [core for core in free if core not in ids]
        given[task] = (ids, sum(speeds.get(core, 0) for core in ids))
    return given


def _choose(
    free: list[int], count: int, affinity: str, places: Mapping[int, int]
) -> list[int] | None:
    if affinity in (PREFER, REQUIRE):
        together = _on_one_numa_node(free, count, places)
        if together is not None or affinity == REQUIRE:
            return together
    return free[:count] if len(free) >= count else None


def _on_one_numa_node(
    free: Sequence[int], count: int, places: Mapping[int, int]
) -> list[int] | None:
    """On the NUMA node that has the fewest free cores yet enough: the others stay whole."""
    by_place: defaultdict[int, list[int]] = defaultdict(list)
    for core in free:
        by_place[places.get(core, 0)].append(core)
    enough = [(len(cores), place) for place, cores in by_place.items() if len(cores) >= count]
    return by_place[min(enough)[1]][:count] if enough else None


def _free_cores(
    node: Node, in_use: Sequence[AllocatedResources], speeds: Mapping[int, int]
) -> list[int]:
    reservable = node.node_resources.cpu.reservable_cpu_cores
    taken = set(node.reserved_resources.cpu.reserved_cpu_cores or ())
    for resources in in_use:
        for task in resources.tasks.values():
            taken.update(task.cpu.reserved_cores or ())
    return sorted(set(speeds if reservable is None else reservable) - taken)


def _topology(node: Node) -> list[dict[str, int]]:
    topology = (node.node_resources.processors or {}).get("Topology")
    cores = topology.get("Cores") if isinstance(topology, dict) else None
    return cores or []


def core_speeds(node: Node) -> dict[int, int]:
    """MHz of every core, by core id."""
    cores = _topology(node)
    if cores:
        return {
            int(c["ID"]): int(c.get("BaseSpeed") or c.get("GuessSpeed") or c.get("MaxSpeed") or 0)
            for c in cores
        }
    cpu = node.node_resources.cpu
    each = cpu.cpu_shares // max(cpu.total_cpu_cores, 1)
    return dict.fromkeys(cpu.reservable_cpu_cores or range(cpu.total_cpu_cores), each)


def numa_nodes(node: Node) -> dict[int, int]:
    """Core id -> the NUMA node it is on."""
    return {int(core["ID"]): int(core.get("NodeID") or 0) for core in _topology(node)}
