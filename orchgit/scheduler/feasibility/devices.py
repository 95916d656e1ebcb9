"""Matches the devices of a node with the devices that tasks ask for, and offers instances."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from copy import copy
from dataclasses import dataclass, field

from orchgit.model.constraint import Affinity, Constraint
from orchgit.model.node import Node, NodeDevice
from orchgit.model.resources import AllocatedDevice, AllocatedResources, RequestedDevice
from orchgit.scheduler.feasibility.operands import holds

_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z/]*)")
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_DECIMAL = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_OTHER_UNITS = {
    "MHz": (10**6, "Hz"),
    "GHz": (10**9, "Hz"),
    "mW": (10**-3, "W"),
    "W": (1.0, "W"),
    "kW": (10**3, "W"),
    "MW": (10**6, "W"),
    "GW": (10**9, "W"),
}


def _unit(unit: str) -> tuple[float, str]:
    """Returns (factor, dimension) of a unit; an unknown unit is its own dimension."""
    if unit in _OTHER_UNITS:
        return _OTHER_UNITS[unit]
    name, per_second = (unit[:-2], "/s") if unit.endswith("/s") else (unit, "")
    if name.endswith("iB") and name[:-2] in _BINARY:
        return float(_BINARY[name[:-2]]), "B" + per_second
    if name.endswith("B") and name[:-1] in _DECIMAL:
        return float(_DECIMAL[name[:-1]]), "B" + per_second
    return 1.0, unit


Value = str | bool | tuple[float, str]


def parse_value(text: str) -> Value:
    """Parses an attribute: `20 GiB` is a number with a dimension, `true` a boolean, everything else
    text."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is not None:
        factor, dimension = _unit(found.group(2))
        return float(found.group(1)) * factor, dimension
    return text == "true" if text in ("true", "false") else text


def _attribute_value(attribute: dict[str, object]) -> Value | None:
    for kind in ("Float", "Int"):
        number = attribute.get(kind)
        if isinstance(number, int | float):
            factor, dimension = _unit(str(attribute.get("Unit") or ""))
            return float(number) * factor, dimension
    for kind in ("Bool", "String"):
        value = attribute.get(kind)
        if isinstance(value, str | bool):
            return value
    return None


def _resolve(target: str, device: NodeDevice) -> Value | None:
    if not target.startswith("${"):
        return parse_value(target)
    name = target[2:].removesuffix("}").removeprefix("device.")
    if name.startswith("attr."):
        attribute = (device.attributes or {}).get(name.removeprefix("attr."))
        return None if attribute is None else _attribute_value(attribute)
    return {
        "vendor": device.vendor,
        "type": device.type,
        "model": device.name,
        "ids": ",".join(instance.id for instance in device.instances),
    }.get(name)


def _condition_holds(condition: Constraint | Affinity, device: NodeDevice) -> bool:
    left, right = _resolve(condition.l_target, device), _resolve(condition.r_target, device)
    if isinstance(left, tuple) and isinstance(right, tuple):
        if left[1] != right[1]:
            return condition.operand in ("!=", "not")
        return holds(condition.operand, repr(left[0]), repr(right[0]))
    return holds(
        condition.operand, _text(left, condition.l_target), _text(right, condition.r_target)
    )


def _text(value: Value | None, target: str) -> str | None:
    """Returns the value as text; a number is compared with text as it was written."""
    if isinstance(value, tuple):
        return target if not target.startswith("${") else f"{value[0]:g}"
    return ("true" if value else "false") if isinstance(value, bool) else value


def matches(ask: RequestedDevice, device: NodeDevice) -> bool:
    """Returns whether the device group has the requested name and meets the request's
    constraints."""
    parts = ask.name.split("/", 2)
    kind = {
        1: (device.type,),
        2: (device.vendor, device.type),
        3: (device.vendor, device.type, device.name),
    }[len(parts)]
    if tuple(parts) != kind:
        return False
    return all(_condition_holds(constraint, device) for constraint in ask.constraints or ())


def has_devices(node: Node, asks: Iterable[RequestedDevice]) -> bool:
    """Returns whether the node has enough healthy instances for all asks, counting those in use."""
    devices = node.node_resources.devices or []
    left = [sum(instance.healthy for instance in device.instances) for device in devices]
    for ask in asks:
        wanted = ask.count
        for position, device in enumerate(devices):
            if wanted and left[position] and matches(ask, device):
                given = min(wanted, left[position])
                wanted -= given
                left[position] -= given
        if wanted:
            return False
    return True


@dataclass(slots=True)
class DeviceOffer:
    """The device instances offered to the tasks of one group, with the weights of the affinities
    that match."""

    by_task: dict[str, list[AllocatedDevice]] = field(default_factory=dict)
    matched_weight: float = 0.0
    total_weight: float = 0.0

    def add(self, other: DeviceOffer) -> None:
        for task, given in other.by_task.items():
            self.by_task.setdefault(task, []).extend(given)
        self.matched_weight += other.matched_weight
        self.total_weight += other.total_weight

    @property
    def has_score(self) -> bool:
        return self.total_weight > 0

    @property
    def score(self) -> float:
        return self.matched_weight / self.total_weight


class DevicePool:
    """The free healthy device instances of one node."""

    def __init__(self, node: Node, used: Iterable[AllocatedResources]) -> None:
        self._devices = node.node_resources.devices or []
        taken = {
            (device.vendor, device.type, device.name, instance)
            for resources in used
            for task in resources.tasks.values()
            for device in task.devices or ()
            for instance in device.device_ids
        }
        self._free = [
            [
                instance.id
                for instance in device.instances
                if instance.healthy
                and (device.vendor, device.type, device.name, instance.id) not in taken
            ]
            for device in self._devices
        ]

    def fork(self) -> DevicePool:
        """Returns a copy that can be changed without changing this pool."""
        twin = copy(self)
        twin._free = [list(ids) for ids in self._free]
        return twin

    def only(self, allowed: Collection[str]) -> DevicePool:
        """Returns a copy that holds only these instances."""
        twin = self.fork()
        twin._free = [[each for each in ids if each in allowed] for ids in self._free]
        return twin

    def take(self, offer: DeviceOffer) -> None:
        """Removes the offered instances, which another copy may have offered."""
        taken = {i for given in offer.by_task.values() for d in given for i in d.device_ids}
        self._free = [[each for each in ids if each not in taken] for ids in self._free]

    def free(self, device: NodeDevice) -> int:
        """Returns the number of free instances of one of the node's device groups."""
        return len(self._free[self._devices.index(device)])

    def offer(self, asks: Iterable[tuple[str, RequestedDevice]]) -> DeviceOffer | None:
        """Returns instances for each (task, ask), each ask from one device group; None if there are
        too few."""
        offer = DeviceOffer()
        for task, ask in asks:
            position = self._best_group(ask)
            if position is None:
                return None
            device = self._devices[position]
            ids = self._eligible(ask, position)[: ask.count]
            self._free[position] = [i for i in self._free[position] if i not in ids]
            offer.by_task.setdefault(task, []).append(
                AllocatedDevice(
                    vendor=device.vendor, type=device.type, name=device.name, device_ids=ids
                )
            )
            offer.total_weight += sum(abs(a.weight) for a in ask.affinities or ())
            offer.matched_weight += _matched_weight(ask, device)
        return offer

    def _eligible(self, ask: RequestedDevice, position: int) -> list[str]:
        limits = [c for c in ask.constraints or () if c.l_target == "${device.ids}"]
        return [i for i in self._free[position] if all(_instance_holds(c, i) for c in limits)]

    def _best_group(self, ask: RequestedDevice) -> int | None:
        best: tuple[float, int] | None = None
        for position, device in enumerate(self._devices):
            if matches(ask, device) and len(self._eligible(ask, position)) >= ask.count:
                rank = (_matched_weight(ask, device), -position)
                best = rank if best is None else max(best, rank)
        return None if best is None else -best[1]


def _instance_holds(constraint: Constraint, instance_id: str) -> bool:
    if constraint.operand.startswith("set_contains"):
        return instance_id in {part.strip() for part in constraint.r_target.split(",")}
    return holds(constraint.operand, instance_id, constraint.r_target)


def _matched_weight(ask: RequestedDevice, device: NodeDevice) -> float:
    return float(sum(a.weight for a in ask.affinities or () if _condition_holds(a, device)))
