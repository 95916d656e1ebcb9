"""What running tasks use of the machine, measured between questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.drivers.base import Driver, TaskHandle, TaskStats
from orchgit.clock import Clock
from orchgit.model.base import NS_PER_S
from orchgit.model.node import Node

_SAMPLE_GAP_S = 0.1
_SAMPLE_LIFE_NS = 60 * NS_PER_S
_MAX_SAMPLES = 1000


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """`cpu_percent` is of one core; `cpu_mhz` is the same in the unit of `resources.cpu`."""

    memory_bytes: int
    cpu_percent: float
    cpu_mhz: float


class UsageSampler:
    """Keeps the last sample of each task, so that a use of the processor has a beginning."""

    def __init__(
        self, drivers: Mapping[str, Driver], node: Callable[[], Node], clock: Clock
    ) -> None:
        self._drivers = drivers
        self._node = node
        self._clock = clock
        self._samples: dict[str, tuple[int, TaskStats]] = {}

    async def of(self, handle: TaskHandle) -> TaskUsage:
        """Returns the use of the processor since the last question, or over a short moment."""
        driver, clock = self._drivers[handle.driver], self._clock
        before = self._samples.get(handle.key)
        if before is None or clock.now_ns() - before[0] > _SAMPLE_LIFE_NS:
            before = (clock.now_ns(), await driver.stats(handle))
            await clock.sleep(_SAMPLE_GAP_S)
        now = (clock.now_ns(), await driver.stats(handle))
        self._samples = {**dict(list(self._samples.items())[-_MAX_SAMPLES:]), handle.key: now}
        elapsed_ns = max(1, now[0] - before[0])
        percent = max(0.0, 100.0 * (now[1].cpu_ns - before[1].cpu_ns) / elapsed_ns)
        cpu = self._node().node_resources.cpu
        core_mhz = cpu.cpu_shares / max(1, cpu.total_cpu_cores)
        return TaskUsage(now[1].memory_bytes, percent, percent / 100.0 * core_mhz)
