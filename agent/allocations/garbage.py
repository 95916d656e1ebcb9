"""Removes the files of ended allocations, the oldest first, by a pure rule."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent.allocations.alloc_runner import AllocRunner
from agent.allocations.node_allocations import Allocations
from agent.config import GarbageConfig
from agent.loops import spawn, until_done
from orchgit.clock import Clock
from orchgit.errors import DriverError, NotFoundError
from orchgit.wait_first import wait_first

_log = structlog.get_logger(component="agent")


@dataclass(frozen=True, slots=True)
class EndedAlloc:
    """An ended allocation whose files are still there."""

    alloc_id: str
    ended_ns: int


@dataclass(frozen=True, slots=True)
class DiskUse:
    """How full the file system of the allocations is."""

    disk_percent: float = 0.0
    inode_percent: float = 0.0

    @classmethod
    def of(cls, path: Path) -> DiskUse:
        found = os.statvfs(path)
        return cls(_percent(found.f_blocks, found.f_bfree), _percent(found.f_files, found.f_ffree))


def _percent(total: int, free: int) -> float:
    """A file system that makes inodes as it needs them has a total of 0."""
    return 100.0 * (total - free) / total if total else 0.0


def to_remove(
    ended: Iterable[EndedAlloc], running: int, config: GarbageConfig, use: DiskUse
) -> list[str]:
    """Returns the ids of those beyond the count, and of some more while the disk is too full."""
    oldest_first = sorted(ended, key=lambda entry: (entry.ended_ns, entry.alloc_id))
    count = max(0, running + len(oldest_first) - config.max_allocs)
    if (
        use.disk_percent > config.disk_usage_percent
        or use.inode_percent > config.inode_usage_percent
    ):
        count = max(count, config.parallel_destroys)
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
        self._told: dict[str, str] = {}
        """Why files could not be deleted at the last try, by allocation."""

    def start(self) -> None:
        self._loop = spawn(until_done(self._collect_forever, "garbage", self._clock), "garbage")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def collect(self) -> None:
        """Remove files until the limits are met. What cannot be deleted now pushes nothing else
        out, and is tried again by the next collection."""
        failed: set[str] = set()
        while True:
            ended = [entry for entry in self._ended() if entry.alloc_id not in failed]
            running = sum(1 for runner in self._allocations if not runner.local.finished)
            use = DiskUse.of(self._alloc_root)
            if not (batch := to_remove(ended, running, self._config, use)):
                return
            failed |= (await self._remove(batch)).keys()

    async def collect_all(self) -> None:
        """Remove the files of every ended allocation, whatever the limits say. Raises DriverError
        in the end where some cannot be deleted."""
        failed = await self._remove([entry.alloc_id for entry in self._ended()])
        if failed:
            raise next(iter(failed.values()))

    async def collect_one(self, runner: AllocRunner) -> bool:
        """Remove one allocation's files. Returns whether it has ended. Raises DriverError where
        they cannot be deleted."""
        if runner.local.finished and not runner.local.files_removed:
            await self._allocations.remove_files(runner)
        return runner.local.finished

    async def _collect_forever(self) -> None:
        """Each interval, and for each new allocation, which may need the room."""
        while True:
            received = self._allocations.received
            async with wait_first(self._clock.sleep(self._config.interval_s), received.wait()):
                received.clear()
            await self.collect()

    async def _remove(self, alloc_ids: list[str]) -> dict[str, DriverError]:
        """Returns why those that could not be deleted were not; each reason is logged once."""
        failed: dict[str, DriverError] = {}
        at_once = asyncio.Semaphore(self._config.parallel_destroys)

        async def remove(alloc_id: str) -> None:
            with contextlib.suppress(NotFoundError):  # the servers have just forgotten it
                async with at_once:
                    try:
                        await self._allocations.remove_files(self._allocations.get(alloc_id))
                    except DriverError as error:
                        failed[alloc_id] = error

        await asyncio.gather(*map(remove, alloc_ids))
        for alloc_id, error in failed.items():
            if self._told.get(alloc_id) != str(error):
                _log.warning(str(error), alloc=alloc_id)
        kept = {
            alloc_id: text for alloc_id, text in self._told.items() if alloc_id not in alloc_ids
        }
        self._told = kept | {alloc_id: str(error) for alloc_id, error in failed.items()}
        return failed

    def _ended(self) -> list[EndedAlloc]:
        return [
            EndedAlloc(runner.id, runner.local.finished_ns)
            for runner in self._allocations
            if runner.local.finished and not runner.local.files_removed
        ]
