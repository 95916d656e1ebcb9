"""The devices that the scheduler gave to the task: what the task needs to use them."""

from __future__ import annotations

import asyncio

from agent.devices.nvidia import VISIBLE
from agent.drivers.base import TaskDevices
from agent.hooks.base import TaskSetup
from orchgit.model.runtime_variables import allocated_task

_NO_GPU = "void"
"""What NVIDIA's container runtime takes for none; images often ask it for all."""


async def prepare(setup: TaskSetup) -> None:
    allocated = allocated_task(setup.alloc, setup.task).devices
    if allocated:
        setup.results.devices = await asyncio.to_thread(setup.devices.reserve, allocated)
    elif setup.isolation == "image" and any(
        device.vendor == "nvidia" for device in setup.node.node_resources.devices or ()
    ):
        setup.results.devices = TaskDevices(env={VISIBLE: _NO_GPU})
