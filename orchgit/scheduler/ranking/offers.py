"""What exactly a node gives an allocation besides cpu, memory and disk: ports, cores, devices."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources, NetworkResource
from orchgit.scheduler.feasibility.devices import DeviceOffer, DevicePool
from orchgit.scheduler.feasibility.targets import resolve
from orchgit.scheduler.networks import PortUnavailableError
from orchgit.scheduler.ranking.ask import Ask
from orchgit.scheduler.ranking.proposed import Proposed


class NotOfferedError(Exception):
    """A node cannot give it; the text is the dimension that is exhausted."""


@dataclass(slots=True)
class Offer:
    """What is given beyond the ask's shared resources; `resources` None: nothing beyond ports."""

    cpu: int
    ports: list[AllocatedPort] = field(default_factory=list)
    resources: AllocatedResources | None = None
    device_score: float | None = None


def offer(proposed: Proposed, row: int, ask: Ask, rng: random.Random) -> Offer:
    """Raises NotOfferedError. Nothing is taken yet."""
    if ask.is_plain:
        ports = _group_ports(proposed, row, ask, rng) if ask.has_ports else []
        return Offer(ask.cpu, ports)
    return _special_offer(proposed, row, ask, rng)


def _group_ports(proposed: Proposed, row: int, ask: Ask, rng: random.Random) -> list[AllocatedPort]:
    assert ask.network is not None, "has_ports says so"
    node = proposed.columns.nodes[row]
    assert node is not None, "only rows with a node are ranked"
    try:
        return proposed.port_index(row).offer_group(
            ask.network, rng, _interpolated(ask.network, node)
        )
    except PortUnavailableError as error:
        raise NotOfferedError(f"network: {error}") from None


def _interpolated(network: NetworkResource, node: Node) -> dict[str, str] | None:
    names = {
        port.host_network
        for port in (network.reserved_ports or []) + (network.dynamic_ports or [])
        if port.host_network.startswith("${")
    }
    return {name: resolve(name, node) or "" for name in names} if names else None


def _special_offer(proposed: Proposed, row: int, ask: Ask, rng: random.Random) -> Offer:
    node = proposed.columns.nodes[row]
    assert node is not None, "only rows with a node are ranked"
    ports = _group_ports(proposed, row, ask, rng) if ask.has_ports else []
    networks = _task_networks(proposed, row, ask, rng)
    in_use = proposed.resources_on(row)
    devices = DevicePool(node, in_use).offer(ask.devices) if ask.devices else None
    if ask.devices and devices is None:
        raise NotOfferedError("devices: no devices match request")
    resources = ask.with_cores(_cores(node, in_use, ask.cores)) if ask.cores else ask.resources
    resources = _with_extras(resources, networks, devices)
    score = devices.score if devices is not None and devices.has_score else None
    return Offer(resources.total().cpu_shares, ports, resources, score)


def _task_networks(
    proposed: Proposed, row: int, ask: Ask, rng: random.Random
) -> dict[str, NetworkResource]:
    if not ask.task_networks:
        return {}
    index = proposed.bandwidth_index(row)
    given = {}
    try:
        for task, network in ask.task_networks.items():
            given[task] = index.offer_task(network, rng)
            for port in (given[task].reserved_ports or []) + (given[task].dynamic_ports or []):
                index.take(given[task].ip, port.value)
    except PortUnavailableError as error:
        raise NotOfferedError(f"network: {error}") from None
    return given


def _with_extras(
    resources: AllocatedResources,
    networks: dict[str, NetworkResource],
    devices: DeviceOffer | None,
) -> AllocatedResources:
    tasks = dict(resources.tasks)
    for name, network in networks.items():
        tasks[name] = replace(tasks[name], networks=[network])
    for name, given in (devices.by_task if devices else {}).items():
        tasks[name] = replace(tasks[name], devices=given)
    return replace(resources, tasks=tasks)


def core_speeds(node: Node) -> dict[int, int]:
    """MHz of every core, by core id."""
    topology = (node.node_resources.processors or {}).get("Topology")
    cores = topology.get("Cores") if isinstance(topology, dict) else None
    if cores:
        return {
            int(c["ID"]): int(c.get("BaseSpeed") or c.get("GuessSpeed") or c.get("MaxSpeed") or 0)
            for c in cores
        }
    cpu = node.node_resources.cpu
    each = cpu.cpu_shares // max(cpu.total_cpu_cores, 1)
    return dict.fromkeys(cpu.reservable_cpu_cores or range(cpu.total_cpu_cores), each)


def _cores(
    node: Node, in_use: list[AllocatedResources], wanted: dict[str, int]
) -> dict[str, tuple[list[int], int]]:
    """Lowest free ids first."""
    speeds = core_speeds(node)
    reservable = node.node_resources.cpu.reservable_cpu_cores
    taken = set(node.reserved_resources.cpu.reserved_cpu_cores or ())
    for resources in in_use:
        for given_task in resources.tasks.values():
            taken.update(given_task.cpu.reserved_cores or ())
    free = sorted(set(speeds if reservable is None else reservable) - taken)
    given = {}
    for task, count in wanted.items():
        if len(free) < count:
            raise NotOfferedError("cores")
        ids, free = free[:count], free[count:]
        given[task] = (ids, sum(speeds.get(core, 0) for core in ids))
    return given
