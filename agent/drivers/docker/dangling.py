"""Ends the containers of this agent that belong to no allocation: they are left behind by an agent
whose state was lost, or by an engine that died in the middle of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from agent.drivers.config import duration_s
from agent.drivers.docker.container import ALLOC_LABEL, OWNER_LABEL, PAUSE_LABEL
from agent.drivers.docker.options import DockerGcOptions
from orchgit.clock import Clock
from orchgit.errors import DriverError

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Engine

_log = structlog.get_logger(component="agent")


@dataclass
class DanglingContainers:
    """`call` makes a blocking call on a thread."""

    owner: str
    connected: Callable[[], Awaitable[Engine]]
    call: Callable[..., Awaitable[Any]]
    gc: DockerGcOptions
    clock: Clock
    _sweeping: asyncio.Task[None] | None = None

    def start(self, is_known: Callable[[str], bool]) -> None:
        """Sweep again and again, if the node's owner does not object."""
        if self.gc.dangling_containers.enabled and self._sweeping is None:
            self._sweeping = asyncio.create_task(self._repeat(is_known), name="dangling containers")

    async def sweep(self, is_known: Callable[[str], bool], grace_s: float = 0.0) -> None:
        """Removes this agent's containers of unknown allocations that are older than `grace_s`."""
        engine = await self.connected()
        dry_run = self.gc.dangling_containers.dry_run
        for container in await self.call(engine.find, f"{OWNER_LABEL}={self.owner}"):
            found = await self.call(engine.inspect, container)
            age_s = (self.clock.now_ns() - found.created_ns) / 1e9
            removes = self.gc.container or PAUSE_LABEL in found.labels
            kept = found.ended and not removes
            if is_known(found.labels.get(ALLOC_LABEL, "")) or kept or age_s < grace_s:
                continue
            _log.warning(
                "removing a container of no allocation", container=container[:12], dry_run=dry_run
            )
            if dry_run:
                continue
            if removes:
                await self.call(engine.remove, container)
            else:
                await self.call(engine.kill, container, "SIGKILL")

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _repeat(self, is_known: Callable[[str], bool]) -> None:
        dangling = self.gc.dangling_containers
        while True:
            await self.clock.sleep(duration_s(dangling.period))
            try:
                await self.sweep(is_known, duration_s(dangling.creation_grace))
            except DriverError as error:
                _log.debug("cannot look for containers of no allocation", reason=str(error))
