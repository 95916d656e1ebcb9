"""NUMA nodes: which cores and which PCI buses belong together, as the kernel reports it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

_SYSTEM = Path("/sys")


def read(mhz: int, buses: Iterable[str] = (), system: Path = _SYSTEM) -> dict[str, Any] | None:
    """The topology in the shape of Nomad's API; None on a machine with one NUMA node.

    `mhz` is the speed of one core, `buses` are the PCI bus ids of the node's devices.
    """
    places = {
        int(path.name.removeprefix("node")): path
        for path in (system / "devices/system/node").glob("node[0-9]*")
    }
    if len(places) < 2:
        return None
    cpus = system / "devices/system/cpu"
    cores = [
        {
            "ID": core,
            "NodeID": place,
            "SocketID": int(_text(cpus / f"cpu{core}/topology/physical_package_id") or 0),
            "BaseSpeed": mhz,
        }
        for place, path in places.items()
        for core in _numbers(_text(path / "cpulist"))
    ]
    rows = {place: _text(path / "distance").split() for place, path in places.items()}
    known = {bus: _place_of(bus, system) for bus in buses}
    return {
        "Nodes": sorted(places),
        "Distances": [[int(distance) for distance in rows[place]] for place in sorted(places)],
        "Cores": sorted(cores, key=lambda core: core["ID"]),
        "BusAssociativity": {bus: place for bus, place in known.items() if place is not None},
    }


def _place_of(bus: str, system: Path) -> int | None:
    """Drivers write `00000000:3B:00.0`, the kernel's files `0000:3b:00.0`."""
    domain, _, rest = bus.lower().partition(":")
    text = _text(system / f"bus/pci/devices/{domain[-4:]}:{rest}/numa_node")
    place = int(text) if text else -1
    return place if place >= 0 else None


def _numbers(text: str) -> list[int]:
    """`0-2,8` is 0, 1, 2 and 8."""
    numbers: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
