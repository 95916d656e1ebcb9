"""Devices that the scheduler gave to a task: a hook asks their plugins what the task needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.devices.base import DeviceStats
from agent.devices.registry import Devices
from agent.drivers.base import Mount, TaskDevices
from agent.hooks import devices
from agent.tasks.driver_config import task_config
from orchgit.errors import DriverError
from orchgit.model.node import NodeDevice
from orchgit.model.resources import AllocatedDevice, AllocatedResources, AllocatedTask
from tests.unit.agent.test_hooks import new_setup


class _Cards:
    """A plugin of devices with one card, of another vendor."""

    name = "cards"

    def fingerprint(self) -> list[NodeDevice]:
        return [NodeDevice(vendor="v", type="card", name="c")]

    def reserve(self, device_ids: Sequence[str]) -> TaskDevices:
        mount = Mount("/opt/cards", "/opt/cards", read_only=True)
        return TaskDevices(env={"CARDS": ",".join(device_ids)}, mounts=(mount,), nodes=("/dev/c",))

    def stats(self) -> list[DeviceStats]:
        return []

    def close(self) -> None: ...


def test_allocated_devices_reach_the_task_and_its_environment(tmp_path: Path) -> None:
    setup = new_setup(tmp_path, env={"SEEN": "${CARDS}"})
    setup.devices = Devices([_Cards()])
    setup.devices.fingerprint()
    given = AllocatedTask(devices=[AllocatedDevice("v", "card", "c", ["1", "7"])])
    setup.alloc.allocated_resources = AllocatedResources(tasks={setup.task.name: given})
    asyncio.run(devices.prepare(setup))
    made = task_config(setup, 1)
    assert made.env["CARDS"] == made.env["SEEN"] == "1,7"
    assert made.devices.nodes == ("/dev/c",)
    assert made.mounts[-1].task_path == "/opt/cards"
    given.devices = [AllocatedDevice("w", "card", "c", ["1"])]
    with pytest.raises(DriverError, match="cannot give w/card/c to the task: this node has none"):
        asyncio.run(devices.prepare(setup))


def test_container_without_a_gpu_on_a_node_with_gpus_sees_none(tmp_path: Path) -> None:
    setup = new_setup(tmp_path, isolation="image")
    asyncio.run(devices.prepare(setup))
    assert "NVIDIA_VISIBLE_DEVICES" not in setup.environment().env
    setup.node.node_resources.devices = [NodeDevice(vendor="nvidia", type="gpu", name="T4")]
    asyncio.run(devices.prepare(setup))
    assert setup.environment().env["NVIDIA_VISIBLE_DEVICES"] == "void"
