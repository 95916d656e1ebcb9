"""Assigns the devices that tasks require on the NUMA node of their cores."""

from __future__ import annotations

from orchgit.model.node import Node
from orchgit.scheduler.feasibility.devices import DeviceOffer, DevicePool
from orchgit.scheduler.ranking.cores import numa_node_of_bus
from orchgit.scheduler.ranking.required_resources import RequiredResources


class NumaDevices:
    """Assigns one node's devices to the tasks of one ask; tasks that need a certain NUMA node come
    first."""

    def __init__(self, node: Node, pool: DevicePool, ask: RequiredResources) -> None:
        self._ask = ask
        self._pool = pool
        self._offer = DeviceOffer()
        self._settled: set[str] = set()
        buses = numa_node_of_bus(node) if any(ask.near.values()) else {}
        self._place_of = {
            instance.id: buses.get(str((instance.locality or {}).get("PciBusID", "")))
            for device in (node.node_resources.devices or () if buses else ())
            for instance in device.instances
        }

    def suits(self, task: str, place: int) -> bool:
        """Returns whether the NUMA node has all devices that the task needs there, and if so takes
        them."""
        near = self._ask.near.get(task) or ()
        asks = [(name, ask) for name, ask in self._ask.devices if name == task and ask.name in near]
        if not asks:
            return True
        there = {instance for instance, where in self._place_of.items() if where == place}
        offer = self._pool.only(there).offer(asks)
        if offer is None:
            return False
        self._pool.take(offer)
        self._offer.add(offer)
        self._settled.add(task)
        return True

    def complete(self) -> DeviceOffer | None:
        """Returns the devices of all tasks; None if there are too few."""
        rest = [
            (task, ask)
            for task, ask in self._ask.devices
            if task not in self._settled or ask.name not in self._ask.near[task]
        ]
        offer = self._pool.offer(rest)
        if offer is not None:
            self._offer.add(offer)
        return self._offer if offer is not None else None
