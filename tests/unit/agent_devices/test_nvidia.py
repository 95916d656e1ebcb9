"""GPUs, by a stand-in for NVIDIA's library: found, measured, given to tasks."""

from __future__ import annotations

import asyncio
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from agent.devices.nvidia import NvidiaOptions, NvidiaPlugin
from agent.devices.registry import PERIOD_S, load_devices
from agent.devices.watch import watch_devices
from agent.drivers.base import TaskDevices
from agent.drivers.docker.config import DockerConfig
from agent.drivers.docker.container import container_request
from agent.drivers.docker.options import DockerOptions
from agent.serve import host_stats
from orchgit.clock import FakeClock
from orchgit.errors import DriverError
from orchgit.model.node import NodeDevice
from orchgit.model.resources import AllocatedDevice
from tests.support.driver_rigs import task_config
from tests.support.polling import until

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

_SOURCE = Path(__file__).parents[2] / "support" / "fake_nvml.c"


@functools.cache
def library() -> str:
    path = Path(tempfile.mkdtemp(prefix="orchgit-nvml-")) / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(_SOURCE)], check=True)
    return str(path)


def plugin(directory: Path, **options: object) -> NvidiaPlugin:
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2"):
        (directory / name).touch()
    return NvidiaPlugin(NvidiaOptions(library=library(), device_dir=str(directory), **options))


def test_cards_are_found_by_model_with_their_attributes(tmp_path: Path) -> None:
    t4, h100 = plugin(tmp_path).fingerprint()
    assert (t4.vendor, t4.type, t4.name) == ("nvidia", "gpu", "Tesla T4")
    assert [one.id for one in t4.instances] == ["GPU-0", "GPU-1"]
    assert t4.instances[1].locality == {"PciBusID": "00000000:01:00.0"}
    assert t4.attributes == {
        "driver_version": {"String": "535.104.05"},
        "memory": {"Int": 16384, "Unit": "MiB"},
        "power": {"Int": 70, "Unit": "W"},
    }
    assert h100.attributes is not None
    assert "power" not in h100.attributes  # the card does not tell


def test_use_of_each_card_is_measured(tmp_path: Path) -> None:
    made = plugin(tmp_path)
    assert made.stats() == []
    made.fingerprint()
    stats = made.stats()
    assert [one.device_id for one in stats] == ["GPU-0", "GPU-1", "GPU-2"]
    assert stats[0].values == {
        "memory_used_bytes": 1 << 30,
        "gpu_percent": 37,
        "memory_percent": 12,
        "power_w": 70.5,
        "temperature_c": 61,
    }


def test_task_is_given_the_files_of_its_own_cards(tmp_path: Path) -> None:
    made = plugin(tmp_path)
    made.fingerprint()
    given = made.reserve(["GPU-0"])
    assert given.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0", "CUDA_VISIBLE_DEVICES": "GPU-0"}
    assert given.nodes == tuple(
        str(tmp_path / name) for name in ("nvidia2", "nvidiactl", "nvidia-uvm")
    )
    with pytest.raises(DriverError, match="cannot give GPU GPU-9 to the task"):
        made.reserve(["GPU-9"])


def test_ignored_cards_are_not_offered(tmp_path: Path) -> None:
    found = plugin(tmp_path, ignored_gpu_ids=["GPU-1", "GPU-2"]).fingerprint()
    assert [[one.id for one in device.instances] for device in found] == [["GPU-0"]]


def test_divided_card_is_given_in_parts_with_their_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML", "mig")
    made = plugin(tmp_path, proc_dir=str(tmp_path / "proc"))
    _, parts = made.fingerprint()
    assert (parts.name, [one.id for one in parts.instances]) == (
        "H100 MIG 1g.10gb",
        ["MIG-10", "MIG-11"],
    )
    assert parts.attributes is not None
    assert parts.attributes["memory"] == {"Int": 10240, "Unit": "MiB"}
    with pytest.raises(DriverError, match=r"cannot give GPU MIG-11 to the task: .*gi11/access"):
        made.reserve(["MIG-11"])
    instance = tmp_path / "proc" / "capabilities" / "gpu0" / "mig" / "gi11"
    (instance / "ci0").mkdir(parents=True)
    for number, right in enumerate((instance, instance / "ci0"), 102):
        (right / "access").write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 292\n")
    (tmp_path / "nvidia-caps").mkdir()
    for number in (101, 102, 103):
        (tmp_path / "nvidia-caps" / f"nvidia-cap{number}").touch()
    given = made.reserve(["MIG-11"])
    assert given.env["CUDA_VISIBLE_DEVICES"] == "MIG-11"
    assert [str(Path(node).relative_to(tmp_path)) for node in given.nodes] == [
        "nvidia0",
        "nvidia-caps/nvidia-cap102",
        "nvidia-caps/nvidia-cap103",
        "nvidiactl",
        "nvidia-uvm",
    ]
    used = {one.device_id: one.values for one in made.stats()}
    assert (used["MIG-11"]["memory_used_bytes"], used["MIG-11"]["gpu_percent"]) == (1 << 30, 0)


def test_lost_card_is_neither_offered_nor_given_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plugin(tmp_path)
    made.fingerprint()
    monkeypatch.setenv("FAKE_NVML", "lost")
    assert [[one.id for one in each.instances] for each in made.fingerprint()] == [
        ["GPU-0"],
        ["GPU-2"],
    ]
    assert [one.device_id for one in made.stats()] == ["GPU-0", "GPU-2"]
    with pytest.raises(DriverError, match="does not have it any more"):
        made.reserve(["GPU-1"])
    monkeypatch.delenv("FAKE_NVML")
    assert [one.id for one in made.fingerprint()[0].instances] == ["GPU-0", "GPU-1"]
    assert made.reserve(["GPU-1"]).env["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_changes_of_the_cards_are_told_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path)
    devices = load_devices({"nvidia": {"library": library(), "device_dir": str(tmp_path)}})
    told: list[list[NodeDevice]] = []
    clock = FakeClock()

    async def scenario() -> None:
        work = watch_devices(devices, devices.fingerprint(), told.append, clock)
        watching = asyncio.create_task(work)

        async def next_told() -> list[list[str]]:
            async def is_told() -> bool:
                if not told:  # no look is under way while the cards change
                    await clock.advance(PERIOD_S)
                return bool(told)

            await until(is_told)
            return [[one.id for one in each.instances] for each in told.pop()]

        monkeypatch.setenv("FAKE_NVML", "lost")
        assert await next_told() == [["GPU-0"], ["GPU-2"]]
        monkeypatch.setenv("FAKE_NVML", "mig")
        assert await next_told() == [["GPU-0", "GPU-1"], ["MIG-10", "MIG-11"]]
        (tmp_path / "nvidiactl").unlink()
        assert await next_told() == []
        assert told == []
        watching.cancel()

    asyncio.run(scenario())


def test_devices_are_looked_at_as_often_as_the_configuration_says() -> None:
    assert load_devices({}).period_s == PERIOD_S
    assert load_devices({"nvidia": {"fingerprint_period": "10s"}}).period_s == 10
    assert load_devices({"nvidia": {"fingerprint_period": "0s"}}).period_s > 0


def test_node_without_a_driver_has_no_devices(tmp_path: Path) -> None:
    assert NvidiaPlugin(NvidiaOptions(device_dir=str(tmp_path))).fingerprint() == []


def test_node_whose_library_is_missing_has_no_devices_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    missing = {"library": "/no/library.so", "device_dir": str(tmp_path)}
    devices = load_devices({"nvidia": missing})
    assert devices.fingerprint() == []
    with pytest.raises(DriverError, match=r"cannot give nvidia/gpu/T to the task: this node has"):
        devices.reserve([AllocatedDevice("nvidia", "gpu", "T", ["GPU-0"])])


def request(directory: Path, given: TaskDevices, options: DockerOptions) -> dict:
    task = task_config(directory, {}, devices=given)
    return container_request(task, DockerConfig(image="i"), options, 4)["HostConfig"]  # type: ignore[return-value]


def test_container_asks_its_engine_for_its_own_cards(tmp_path: Path) -> None:
    made = plugin(tmp_path)
    made.fingerprint()
    given = made.reserve(["GPU-0", "GPU-2"])
    host = request(tmp_path, given, DockerOptions())
    assert host["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["GPU-0", "GPU-2"], "Capabilities": [["gpu"]]}
    ]
    assert host["Devices"] == []
    by_runtime = request(tmp_path, given, DockerOptions(nvidia_runtime="nvidia"))
    assert (by_runtime["Runtime"], by_runtime["DeviceRequests"]) == ("nvidia", [])
    assert request(tmp_path, TaskDevices(), DockerOptions())["DeviceRequests"] == []


def test_files_of_other_devices_reach_a_container(tmp_path: Path) -> None:
    host = request(tmp_path, TaskDevices(nodes=("/dev/fpga0",)), DockerOptions())
    assert [one["PathInContainer"] for one in host["Devices"]] == ["/dev/fpga0"]


def test_use_of_the_nodes_devices_is_among_its_statistics(tmp_path: Path) -> None:
    plugin(tmp_path)
    devices = load_devices({"nvidia": {"library": library(), "device_dir": str(tmp_path)}})
    devices.fingerprint()
    told = host_stats.read(tmp_path, FakeClock(), devices)["DeviceStats"]
    assert isinstance(told, list)
    assert [(each["Vendor"], each["Type"], each["Name"]) for each in told] == [
        ("nvidia", "gpu", "Tesla T4"),
        ("nvidia", "gpu", "H100"),
    ]
    assert list(told[0]["InstanceStats"]) == ["GPU-0", "GPU-1"]
    attributes = told[1]["InstanceStats"]["GPU-2"]["Stats"]["Attributes"]
    assert attributes["temperature_c"] == {"FloatNumeratorVal": 61}
