"""NUMA nodes, read from files made up."""

from __future__ import annotations

from pathlib import Path

from agent.fingerprint import topology


def _system(root: Path, *cpulists: str) -> Path:
    distances = ["10 21", "21 10"]
    for place, cpulist in enumerate(cpulists):
        folder = root / f"devices/system/node/node{place}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpulist}\n")
        (folder / "distance").write_text(f"{distances[place]}\n")
    socket = root / "devices/system/cpu/cpu3/topology"
    socket.mkdir(parents=True)
    (socket / "physical_package_id").write_text("1\n")
    for bus, place in (("0000:3b:00.0", "1"), ("0000:01:00.0", "-1")):
        card = root / "bus/pci/devices" / bus
        card.mkdir(parents=True)
        (card / "numa_node").write_text(f"{place}\n")
    return root


def test_cores_distances_and_buses(tmp_path: Path) -> None:
    buses = ["00000000:3B:00.0", "00000000:01:00.0", "00000000:FF:00.0"]
    found = topology.read(2500, buses, _system(tmp_path, "0,2", "1,3"))
    assert found is not None
    assert found["Nodes"] == [0, 1]
    assert found["Distances"] == [[10, 21], [21, 10]]
    assert [(core["ID"], core["NodeID"], core["SocketID"]) for core in found["Cores"]] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 0, 0),
        (3, 1, 1),
    ]
    assert {core["BaseSpeed"] for core in found["Cores"]} == {2500}
    assert found["BusAssociativity"] == {"00000000:3B:00.0": 1}


def test_machine_with_one_numa_node_or_none_has_nothing_to_tell(tmp_path: Path) -> None:
    assert topology.read(2500, system=tmp_path) is None
    assert topology.read(2500, system=_system(tmp_path, "0-3")) is None


def test_numa_node_with_memory_only_has_no_cores(tmp_path: Path) -> None:
    found = topology.read(2500, system=_system(tmp_path, "0-1,3", ""))
    assert found is not None
    assert [core["ID"] for core in found["Cores"]] == [0, 1, 3]
