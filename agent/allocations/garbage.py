"""Removes the files of ended allocations, the oldest first, by a pure rule."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.allocations.alloc_runner import AllocRunner
from agent.allocations.node_allocations import Allocations
from agent.config import GarbageConfig
from agent.loops import spawn, until_done
from orchgit.clock import Clock
from orchgit.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class EndedAlloc:
    """An ended allocation whose files are still there."""

    alloc_id: str
    ended_ns: int


def to_remove(ended: Iterable[EndedAlloc], config: GarbageConfig, disk_percent: float) -> list[str]:
    """Returns the ids of those beyond the count, and of one more while the disk is too full."""
    oldest_first = sorted(ended, key=lambda entry: (entry.ended_ns, entry.alloc_id))
    count = max(0, len(oldest_first) - config.max_allocs)
    if disk_percent > config.disk_usage_percent:
        count = max(count, 1)
    return [entry.alloc_id for entry in oldest_first[:count]]


class AllocGarbageCollector:
    """Collects once per interval, and on request."""

    def __init__(
        self, allocations: Allocations, config: GarbageConfig, alloc_root: Path, clock: Clock
    ) -> None:
        self._allocations = allocations
        self._config = config
        self._alloc_root = alloc_root
        self._clock = clock
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = spawn(until_done(self._collect_forever, "garbage", self._clock), "garbage")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def collect(self) -> None:
        """Remove files until the limits are met."""
        while True:
            usage = shutil.disk_usage(self._alloc_root)
            batch = to_remove(self._ended(), self._config, 100.0 * usage.used / usage.total)
            if not batch:
                return
            for alloc_id in batch:
                await self._remove(alloc_id)

    async def collect_all(self) -> None:
        """Remove the files of every ended allocation, whatever the limits say."""
        for entry in self._ended():
            await self._remove(entry.alloc_id)

    async def collect_one(self, runner: AllocRunner) -> bool:
        """Remove one allocation's files. Returns whether it has ended."""
        if runner.local.finished and not runner.local.files_removed:
            await self._allocations.remove_files(runner)
        return runner.local.finished

    async def _collect_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.interval_s)
            await self.collect()

    async def _remove(self, alloc_id: str) -> None:
        with contextlib.suppress(NotFoundError):  # the servers have just forgotten it
            await self._allocations.remove_files(self._allocations.get(alloc_id))

    def _ended(self) -> list[EndedAlloc]:
        return [
            EndedAlloc(runner.id, runner.local.finished_ns)
            for runner in self._allocations
            if runner.local.finished and not runner.local.files_removed
        ]
