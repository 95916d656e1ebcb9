"""Removes the images that no task of this agent has used for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from orchgit.clock import Clock
from orchgit.errors import DriverError

_log = structlog.get_logger(component="agent")


_RETRY_S = 60.0
"""The least time between two tries, where the engine does not answer."""


@dataclass
class ImageGarbage:
    """Counts the tasks of each image. `remove` is asked `delay_s` after the last one has ended.

    The images that an agent still has to remove are on disk, a file in `record` for each: the next
    agent removes those that no task of its own uses.
    """

    remove: Callable[[str], Awaitable[bool]]
    clock: Clock
    delay_s: float
    record: Path
    enabled: bool = True
    _used_by: dict[str, set[str]] = field(default_factory=dict)
    _removing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def use(self, image_id: str, key: str) -> None:
        """The task `key` is about to run, or runs, from the image."""
        if removing := self._removing.pop(image_id, None):
            removing.cancel()
        self._used_by.setdefault(image_id, set()).add(key)
        if self.enabled:
            with contextlib.suppress(OSError):  # a full disk costs the removal, not the task
                self.record.mkdir(parents=True, exist_ok=True)
                (self.record / image_id).touch()

    def release(self, key: str) -> None:
        """The task `key` is gone."""
        for image_id, users in list(self._used_by.items()):
            if key in users:
                users.discard(key)
                if not users:
                    del self._used_by[image_id]
                    self._remove_later(image_id)

    def resume(self) -> None:
        """An earlier agent may have ended before it removed its images."""
        with contextlib.suppress(OSError):
            for image_id in sorted(file.name for file in self.record.iterdir()):
                if image_id not in self._used_by and image_id not in self._removing:
                    self._remove_later(image_id)

    async def close(self) -> None:
        for removing in self._removing.values():
            removing.cancel()
        await asyncio.gather(*self._removing.values(), return_exceptions=True)

    def _remove_later(self, image_id: str) -> None:
        if self.enabled:
            self._removing[image_id] = asyncio.create_task(
                self._remove(image_id), name=f"remove image {image_id[:19]}"
            )

    async def _remove(self, image_id: str) -> None:
        await self.clock.sleep(self.delay_s)
        while True:
            try:
                if await self.remove(image_id):
                    _log.info("removed an image that no task uses", image=image_id)
                break
            except DriverError as error:
                _log.warning("cannot remove an image that no task uses", reason=str(error))
                if not error.recoverable:
                    break
            await self.clock.sleep(max(self.delay_s, _RETRY_S))
        if self._removing.get(image_id) is asyncio.current_task():
            del self._removing[image_id]
            with contextlib.suppress(OSError):
                (self.record / image_id).unlink()
