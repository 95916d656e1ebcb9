"""Looks at the node's devices again and again: a lost one is offered no more, a new one is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.devices.registry import Devices
from orchgit.clock import Clock
from orchgit.model.node import NodeDevice


async def watch_devices(
    devices: Devices,
    known: list[NodeDevice],
    on_change: Callable[[list[NodeDevice]], None],
    clock: Clock,
) -> None:
    """`known` is what the servers have been told. Never returns."""
    while True:
        await clock.sleep(devices.period_s)
        found = await asyncio.to_thread(devices.fingerprint)
        if found != known:
            known = found
            on_change(found)
