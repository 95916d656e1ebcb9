"""Pulls of images: each image is pulled once at a time, for all the tasks that wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from agent.drivers.docker.image_names import ImageName
from agent.drivers.docker.pull_progress import PullProgress
from orchgit.clock import Clock
from orchgit.errors import DriverError

PULLS_AT_ONCE = 8
REPORT_EVERY_S = 60.0

Pull = Callable[[ImageName, str, PullProgress, threading.Event], None]
"""(image, auth header, progress, given up); blocks until the image is there."""


@dataclass
class _Pulling:
    running: asyncio.Future[None]
    progress: PullProgress
    given_up: threading.Event
    waiters: int = 0


@dataclass
class ImagePulls:
    """Owns the threads that pull, so that a slow registry takes none of those that stop tasks."""

    pull: Pull
    clock: Clock
    _pulling: dict[tuple[ImageName, str], _Pulling] = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(PULLS_AT_ONCE, thread_name_prefix="pull")
    )

    async def wait(
        self,
        image: ImageName,
        auth_header: str,
        timeout_s: float,
        report: Callable[[str], None],
    ) -> None:
        """Returns when the image is there. `report` is told the beginning and how far it is.

        DriverError (recoverable) after `timeout_s`. The pull itself ends when nobody waits for it.
        """
        key = (image, auth_header)
        pulling = self._pulling.get(key)
        if pulling is None:
            pulling = self._pulling[key] = self._begin(image, auth_header)
        pulling.waiters += 1
        report(f"Downloading image {image.given}")
        reporting = asyncio.create_task(self._report(image, pulling, report))
        try:
            async with asyncio.timeout(timeout_s or None):
                await asyncio.shield(pulling.running)
        except TimeoutError:
            raise DriverError(
                f"cannot pull image {image.given}: it took longer than {timeout_s:g} s "
                f"({pulling.progress})",
                recoverable=True,
            ) from None
        finally:
            reporting.cancel()
            pulling.waiters -= 1
            if pulling.waiters == 0:
                pulling.given_up.set()
            if pulling.given_up.is_set() and self._pulling.get(key) is pulling:
                del self._pulling[key]

    def close(self) -> None:
        for pulling in self._pulling.values():
            pulling.given_up.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, image: ImageName, auth_header: str) -> _Pulling:
        progress, given_up = PullProgress(), threading.Event()
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, self.pull, image, auth_header, progress, given_up
        )
        running.add_done_callback(_seen)
        return _Pulling(running, progress, given_up)

    async def _report(
        self, image: ImageName, pulling: _Pulling, report: Callable[[str], None]
    ) -> None:
        while True:
            await self.clock.sleep(REPORT_EVERY_S)
            report(f"Downloading image {image.given}: {pulling.progress}")


def _seen(running: asyncio.Future[None]) -> None:
    """An error of a pull that everybody left is no error of the program."""
    if not running.cancelled():
        running.exception()
