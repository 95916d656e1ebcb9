"""Packs mirrors now and then, which joins what many small pushes and fetches left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.errors import OrchgitError
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.mirror import Mirror

_log = structlog.get_logger(component="gitops")

WRITES_BETWEEN = 25
_NS_BETWEEN_CLEANINGS = 24 * 3600 * SECOND_NS
_CLEANED = "orchgit-cleaned"
"""Name of a file in the repository that holds when it was last cleaned, in Unix nanoseconds."""


class Maintenance:
    """Packs a mirror after every `WRITES_BETWEEN` writes, in a task of its own that holds the
    mirror's lock, so that no pack disappears under a reader of this process."""

    def __init__(self, git: GitProcess, clock: Clock) -> None:
        self._git = git
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def after_write(self, mirror: Mirror) -> None:
        """Counts a push or fetch that brought objects in."""
        mirror.writes += 1
        if mirror.writes % WRITES_BETWEEN == 0:
            task = asyncio.create_task(self.pack(mirror), name=f"pack {mirror.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def pack(self, mirror: Mirror) -> None:
        """Joins small packs into larger ones, each at least twice as large as the next, so that
        every object is packed a few times only, however many there are.

        Once a day `git gc` packs everything anew instead. git keeps unreferenced objects for two
        weeks, so those of a push whose log entry this server has not applied yet are safe. Commits
        that the state names have a ref of ours.
        """
        async with mirror.lock:
            mirror.held.clear()
            cleaned, now_ns = mirror.path / _CLEANED, self._clock.now_ns()
            try:
                if now_ns - _read_ns(cleaned) >= _NS_BETWEEN_CLEANINGS:
                    await self._run(mirror, "gc", "--quiet")
                    cleaned.write_text(str(now_ns), encoding="ascii")
                else:
                    await self._run(mirror, "repack", "--geometric=2", "-d", "-q")
                    await self._run(mirror, "pack-refs", "--all", "--prune")
            except (OrchgitError, OSError) as error:
                _log.warning("cannot pack a mirror", source=mirror.name, error=str(error))

    async def _run(self, mirror: Mirror, *args: str) -> None:
        options = (f"--git-dir={mirror.path}", "-c", "pack.threads=1")
        await self._git.check([*options, *args], timeout_s=self._git.limits.pack_timeout_s)

    async def close(self) -> None:
        """Ends the tasks under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read_ns(path: Path) -> int:
    """Returns the number in the file; 0 if there is none."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
