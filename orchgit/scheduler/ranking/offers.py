"""Determines the ports, cores and devices that a node gives an allocation, besides cpu, memory and
disk."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources, NetworkResource
from orchgit.scheduler.feasibility.devices import DeviceOffer, DevicePool
from orchgit.scheduler.feasibility.targets import resolve
from orchgit.scheduler.placement.networks import PortUnavailableError
from orchgit.scheduler.ranking.cores import Given, assign_cores
from orchgit.scheduler.ranking.numa_devices import NumaDevices
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.required_resources import RequiredResources

_NO_DEVICES = "devices: no devices match request"


class NotOfferedError(Exception):
    """Raised when a node cannot give what an allocation needs; the text is the exhausted
    dimension."""


@dataclass(slots=True)
class Offer:
    """What a node gives an allocation; `resources` is None if it gives nothing beyond the shared
    resources and ports."""

    cpu: int
    ports: list[AllocatedPort] = field(default_factory=list)
    resources: AllocatedResources | None = None
    device_score: float | None = None


def offer(proposed: Proposed, row: int, ask: RequiredResources, rng: random.Random) -> Offer:
    """Returns what the row gives for the ask, without reserving it. Raises NotOfferedError."""
    if ask.is_plain:
        ports = _group_ports(proposed, row, ask, rng) if ask.has_ports else []
        return Offer(ask.cpu, ports)
    return _special_offer(proposed, row, ask, rng)


def _group_ports(
    proposed: Proposed, row: int, ask: RequiredResources, rng: random.Random
) -> list[AllocatedPort]:
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


def _special_offer(
    proposed: Proposed, row: int, ask: RequiredResources, rng: random.Random
) -> Offer:
    node = proposed.columns.nodes[row]
    assert node is not None, "only rows with a node are ranked"
    ports = _group_ports(proposed, row, ask, rng) if ask.has_ports else []
    networks = _task_networks(proposed, row, ask, rng)
    in_use = proposed.resources_on(row)
    devices, cores = _devices_and_cores(node, in_use, ask)
    resources = ask.with_cores(cores) if cores else ask.resources
    resources = _with_extras(resources, networks, devices)
    score = devices.score if devices is not None and devices.has_score else None
    return Offer(resources.total().cpu_shares, ports, resources, score)


def _devices_and_cores(
    node: Node, in_use: list[AllocatedResources], ask: RequiredResources
) -> tuple[DeviceOffer | None, Given | None]:
    """Returns the devices and cores; devices required near the cores are chosen first, then the
    others."""
    pool = DevicePool(node, in_use)
    if ask.devices and pool.fork().offer(ask.devices) is None:
        raise NotOfferedError(_NO_DEVICES)
    near = NumaDevices(node, pool, ask)
    cores = assign_cores(node, in_use, ask.cores, ask.numa, near.suits) if ask.cores else None
    if ask.cores and cores is None:
        raise NotOfferedError("numa" if "require" in ask.numa.values() else "cores")
    devices = near.complete() if ask.devices else None
    if ask.devices and devices is None:
        raise NotOfferedError(_NO_DEVICES)
    return devices, cores


def _task_networks(
    proposed: Proposed, row: int, ask: RequiredResources, rng: random.Random
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
