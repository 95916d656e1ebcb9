"""Ask every driver how it is: at the start, and again and again.

A slow answer (an engine that hangs) delays neither the node's start nor the other drivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from agent.drivers.base import Driver, DriverInfo
from orchgit.clock import Clock
from orchgit.model.base import datetime_of_ns

PERIOD_S = 30.0
ANSWER_TIMEOUT_S = 20.0

OnChange = Callable[[dict[str, DriverInfo]], None]


class DriverWatch:
    """`infos` is what is known now; `on_change` is called with it after each change."""

    def __init__(self, drivers: Mapping[str, Driver], clock: Clock, on_change: OnChange) -> None:
        self._drivers = drivers
        self._clock = clock
        self._on_change = on_change
        self._watching: list[asyncio.Task[None]] = []
        self._announcing = False
        self.infos = {name: DriverInfo(health_description="not asked yet") for name in drivers}

    async def start(self, wait_s: float) -> dict[str, DriverInfo]:
        """Begin. Returns what is known when all drivers have answered, or after `wait_s`."""
        first = [asyncio.create_task(self._ask(name)) for name in self._drivers]
        if first:
            await asyncio.wait(first, timeout=wait_s)
        self._announcing = True
        self._watching = [
            asyncio.create_task(self._watch(name, asked), name=f"fingerprint {name}")
            for name, asked in zip(self._drivers, first, strict=True)
        ]
        return dict(self.infos)

    async def stop(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    async def _watch(self, name: str, first: asyncio.Task[None]) -> None:
        await first
        while True:
            await self._clock.sleep(PERIOD_S)
            await self._ask(name)

    async def _ask(self, name: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                info = await self._drivers[name].fingerprint()
        except TimeoutError:
            info = DriverInfo(detected=True, health_description="the driver does not answer")
        except Exception as error:  # noqa: BLE001 -- a broken plugin is an unhealthy driver
            info = DriverInfo(health_description=f"the driver failed: {error}")
        self._take(name, info)

    def _take(self, name: str, info: DriverInfo) -> None:
        known = msgspec.structs.replace(self.infos[name], update_time=None)
        if info == known:
            return
        self.infos[name] = msgspec.structs.replace(
            info, update_time=datetime_of_ns(self._clock.now_ns())
        )
        if self._announcing:
            self._on_change(dict(self.infos))


def driver_attributes(infos: Mapping[str, DriverInfo]) -> dict[str, str]:
    """The node attributes of the drivers that were found."""
    found = (info.attributes or {} for info in infos.values() if info.detected and info.healthy)
    return {name: value for attributes in found for name, value in attributes.items()}
