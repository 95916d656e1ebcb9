"""Removes the images that no task of this agent has used for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from orchgit.clock import Clock
from orchgit.errors import DriverError

_log = structlog.get_logger(component="agent")


@dataclass
class ImageGarbage:
    """Counts the tasks of each image. `remove` is asked `delay_s` after the last one has ended."""

    remove: Callable[[str], Awaitable[bool]]
    clock: Clock
    delay_s: float
    enabled: bool = True
    _used_by: dict[str, set[str]] = field(default_factory=dict)
    _removing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def use(self, image_id: str, key: str) -> None:
        """The task `key` is about to run, or runs, from the image."""
        if removing := self._removing.pop(image_id, None):
            removing.cancel()
        self._used_by.setdefault(image_id, set()).add(key)

    def release(self, key: str) -> None:
        """The task `key` is gone."""
        for image_id, users in list(self._used_by.items()):
            if key in users:
                users.discard(key)
                if not users:
                    del self._used_by[image_id]
                    if self.enabled:
                        self._removing[image_id] = asyncio.create_task(
                            self._remove(image_id), name=f"remove image {image_id[:19]}"
                        )

    async def close(self) -> None:
        for removing in self._removing.values():
            removing.cancel()
        await asyncio.gather(*self._removing.values(), return_exceptions=True)

    async def _remove(self, image_id: str) -> None:
        await self.clock.sleep(self.delay_s)
        try:
            if await self.remove(image_id):
                _log.info("removed an image that no task uses", image=image_id)
        except DriverError as error:
            _log.warning("cannot remove an image that no task uses", reason=str(error))
        if self._removing.get(image_id) is asyncio.current_task():
            del self._removing[image_id]
