"""Packs mirrors now and then: `git gc` joins what many small pushes and fetches left behind."""

from __future__ import annotations

import asyncio

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.mirror import Mirror

_log = structlog.get_logger(component="gitops")

WRITES_BETWEEN = 25
_PACKS_KEPT = 20
_LOOSE_KEPT = 2_000


class Maintenance:
    """Packs a mirror after every `WRITES_BETWEEN` writes, in a task of its own that holds the
    mirror's lock, so that no pack disappears under a reader of this process."""

    def __init__(self, git: GitProcess) -> None:
        self._git = git
        self._tasks: set[asyncio.Task[None]] = set()

    def after_write(self, mirror: Mirror) -> None:
        """Counts a push or fetch that brought objects in."""
        mirror.writes += 1
        if mirror.writes % WRITES_BETWEEN == 0:
            task = asyncio.create_task(self.pack(mirror), name=f"pack {mirror.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def pack(self, mirror: Mirror) -> None:
        """Runs `git gc --auto`, which packs if there are too many loose objects or packs.

        git keeps unreferenced objects for two weeks, so those of a push whose log entry this server
        has not applied yet are safe. Commits that the state names have a ref of ours.
        """
        args = [
            f"--git-dir={mirror.path}",
            *("-c", f"gc.auto={_LOOSE_KEPT}", "-c", f"gc.autoPackLimit={_PACKS_KEPT}"),
            *("-c", "gc.autoDetach=false", "-c", "pack.threads=1"),
            *("gc", "--auto", "--quiet"),
        ]
        async with mirror.lock:
            mirror.held.clear()
            try:
                await self._git.check(args, timeout_s=self._git.limits.pack_timeout_s)
            except OrchgitError as error:
                _log.warning("cannot pack a mirror", source=mirror.name, error=str(error))

    async def close(self) -> None:
        """Ends the tasks under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
