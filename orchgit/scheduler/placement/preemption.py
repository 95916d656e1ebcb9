"""Which allocations of lower priority would have to go so that one more fits on a node."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation
from orchgit.model.node import NodeDevice
from orchgit.model.resources import AllocatedResources
from orchgit.scheduler.feasibility.devices import DevicePool, matches
from orchgit.scheduler.placement.networks import ports_of
from orchgit.scheduler.ranking.offers import NotOfferedError, Offer, offer
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.ranking.required_resources import RequiredResources
from orchgit.scheduler.ranking.selector import Choice

PRIORITY_GAP = 10
_RATE, _MIDDLE = 0.0048, 2048.0
PriorityOf = Callable[[Allocation], int]


def preemption_score(priorities: Sequence[int]) -> float:
    """0 to 1, the higher the less it hurts to evict allocations of these priorities."""
    highest = max(priorities)
    weight = highest + sum(priorities) / highest if highest else 0.0
    return 1.0 / (1.0 + math.exp(_RATE * (weight - _MIDDLE)))


@dataclass(slots=True)
class Eviction:
    """`fit`: how full the node is with the new allocation, the evicted ones still there (but for
    those that go for the sake of ports or devices)."""

    victims: list[Allocation]
    offer: Offer
    score: float
    fit: float

    def choice(self, row: int) -> Choice:
        return Choice(row, self.offer)


@dataclass(slots=True)
class _Need:
    """(memory, cpu, disk) that is asked for."""

    memory: float
    cpu: float
    disk: float

    def distance(self, resources: AllocatedResources) -> float:
        total = resources.total()
        parts = (
            (self.memory, total.memory_mb),
            (self.cpu, total.cpu_shares),
            (self.disk, total.disk_mb),
        )
        return math.sqrt(
            sum(((wanted - held) / wanted) ** 2 for wanted, held in parts if wanted > 0)
        )

    def less(self, resources: AllocatedResources) -> _Need:
        total = resources.total()
        return _Need(
            self.memory - total.memory_mb,
            self.cpu - total.cpu_shares,
            self.disk - total.disk_mb,
        )


@dataclass(slots=True)
class Preemptor:
    """Looks for evictions on one node at a time, for one job."""

    proposed: Proposed
    job_priority: int
    priority_of: PriorityOf
    rng: random.Random
    fill: Callable[[int, int], float]
    """(row, cpu asked) -> the score of the node with the new allocation, more than full or not."""
    _row: int = -1
    _victims: list[Allocation] = field(default_factory=list)

    def evict_on(self, row: int, ask: RequiredResources) -> Eviction | None:
        """The allocations to evict on the row, with the offer that is possible then."""
        self._row = row
        self._victims = []
        try:
            offered = self._offer(ask)
            if offered is None:
                return None
            fit = self.fill(row, offered.cpu)
            if not self._make_room(offered.cpu, ask):
                return None
        finally:
            for victim in self._victims:
                self.proposed.unstop(victim)
        if not self._victims:
            return None
        priorities = [self.priority_of(victim) for victim in self._victims]
        return Eviction(list(self._victims), offered, preemption_score(priorities), fit)

    def _candidates(self) -> list[Allocation]:
        return [
            allocation
            for allocation in self.proposed.allocations_on(self._row)
            if (allocation.namespace, allocation.job_id) != self.proposed.job_key
            and allocation.allocated_resources is not None
            and allocation.create_index > 0
            and self.priority_of(allocation) <= self.job_priority - PRIORITY_GAP
        ]

    def _evict(self, victims: Iterable[Allocation]) -> None:
        for victim in victims:
            self.proposed.stop(victim)
            self._victims.append(victim)

    # --- ports, bandwidth and devices -----------------------------------------------------

    def _offer(self, ask: RequiredResources) -> Offer | None:
        """An offer, with the users of ports or devices evicted where that is what it takes."""
        for remedy in (None, self._free_ports, self._free_bandwidth, self._free_devices):
            if remedy is not None and not remedy(ask):
                continue
            try:
                return offer(self.proposed, self._row, ask, self.rng)
            except NotOfferedError:
                continue
        return None

    def _free_ports(self, ask: RequiredResources) -> bool:
        wanted = {port.value for port in (ask.network and ask.network.reserved_ports) or ()}
        for network in ask.task_networks.values():
            wanted.update(port.value for port in network.reserved_ports or ())
        victims = [
            allocation
            for allocation in self._candidates()
            if any(port in wanted for _, port in ports_of(_resources(allocation)))
        ]
        self._evict(victims)
        return bool(victims)

    def _free_bandwidth(self, ask: RequiredResources) -> bool:
        needed = sum(network.mbits or 0 for network in ask.task_networks.values())
        users = [(a, _mbits(a)) for a in self._candidates()]
        users = [(a, mbits) for a, mbits in users if mbits]
        if not needed or not users:
            return False
        index = self.proposed.bandwidth_index(self._row)
        free = sum(index.networks.bandwidth.values()) - sum(index.bandwidth_used.values())
        users.sort(key=lambda user: (self.priority_of(user[0]), abs(needed - user[1])))
        chosen = []
        for allocation, mbits in users:
            if free >= needed:
                break
            chosen.append(allocation)
            free += mbits
        self._evict(chosen)
        return bool(chosen)

    def _free_devices(self, ask: RequiredResources) -> bool:
        """For each ask the device group that is cheapest to free."""
        node = self.proposed.columns.nodes[self._row]
        assert node is not None, "only rows with a node are looked at"
        for task, wanted in ask.devices:
            pool = DevicePool(node, self.proposed.resources_on(self._row))
            if pool.offer([(task, wanted)]) is not None:
                continue
            options = [
                option
                for device in node.node_resources.devices or ()
                if matches(wanted, device)
                and (option := self._device_option(device, pool.free(device), wanted.count))
            ]
            if not options:
                return False
            # The option with the lowest sum of distinct priorities.
            self._evict(min(options, key=lambda option: sum(set(map(self.priority_of, option)))))
        return bool(ask.devices)

    def _device_option(self, device: NodeDevice, free: int, count: int) -> list[Allocation] | None:
        users = [(a, _instances(a, device)) for a in self._candidates()]
        users = [(a, held) for a, held in users if held]
        users.sort(key=lambda user: (self.priority_of(user[0]), -user[1]))
        chosen: list[tuple[Allocation, int]] = []
        for user in users:
            if free >= count:
                break
            chosen.append(user)
            free += user[1]
        if free < count:
            return None
        return _without_needless(chosen, count - (free - sum(held for _, held in chosen)))

    # --- cpu, memory and disk -------------------------------------------------------------

    def _missing(self, ask_cpu: int, ask: RequiredResources) -> bool:
        columns, row = self.proposed.columns, self._row
        cpu, memory, disk = self.proposed.usage(row)
        return bool(
            cpu + ask_cpu > columns.cpu_capacity[row]
            or memory + ask.memory > columns.memory_capacity[row]
            or disk + ask.disk > columns.disk_capacity[row]
        )

    def _make_room(self, ask_cpu: int, ask: RequiredResources) -> bool:
        if not self._missing(ask_cpu, ask):
            return True
        full = _Need(ask.memory, ask_cpu, ask.disk)
        chosen: list[Allocation] = []
        need = full
        for allocation in self._in_order(full):
            chosen.append(allocation)
            self.proposed.stop(allocation)
            if not self._missing(ask_cpu, ask):
                break
        enough = not self._missing(ask_cpu, ask)
        for allocation in chosen:
            self.proposed.unstop(allocation)
        if not enough:
            return False
        chosen.sort(key=lambda a: -need.distance(_resources(a)))
        for allocation in chosen:
            if not self._missing(ask_cpu, ask):
                break
            self._evict([allocation])
        return True

    def _in_order(self, full: _Need) -> Iterable[Allocation]:
        """By ascending priority; inside one priority always the nearest to what is needed yet."""
        by_priority: dict[int, list[Allocation]] = {}
        for allocation in self._candidates():
            by_priority.setdefault(self.priority_of(allocation), []).append(allocation)
        need = full
        for priority in sorted(by_priority):
            group = by_priority[priority]
            while group:
                nearest = min(group, key=lambda a: need.distance(_resources(a)))
                group.remove(nearest)
                need = need.less(_resources(nearest))
                yield nearest


def _without_needless(chosen: list[tuple[Allocation, int]], needed: int) -> list[Allocation]:
    """Those with most instances first, only as many as are needed."""
    kept = []
    for allocation, held in sorted(chosen, key=lambda user: -user[1]):
        if needed <= 0:
            break
        kept.append(allocation)
        needed -= held
    return kept


def _resources(allocation: Allocation) -> AllocatedResources:
    assert allocation.allocated_resources is not None, "candidates have resources"
    return allocation.allocated_resources


def _mbits(allocation: Allocation) -> int:
    tasks = _resources(allocation).tasks.values()
    return sum(network.mbits or 0 for task in tasks for network in task.networks or ())


def _instances(allocation: Allocation, device: NodeDevice) -> int:
    return sum(
        len(held.device_ids)
        for task in _resources(allocation).tasks.values()
        for held in task.devices or ()
        if (held.vendor, held.type, held.name) == (device.vendor, device.type, device.name)
    )
