"""Which parts of a server wait for room on the disk: writes are refused until none does."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from orchgit.errors import DiskFullError

_log = structlog.get_logger(component="raft")
RETRY_S = 0.2
"""How often a part that waits checks whether there is room again."""

JOURNAL = "log"
STATE = "state"


class DiskSpace:
    """Each part reports on its own thread; any thread may read. `on_lack` is called when the first
    part waits, on that part's thread."""

    def __init__(self, on_lack: Callable[[], object] = lambda: None) -> None:
        self._problems: dict[str, str] = {}
        self._on_lack = on_lack

    def lacks(self, part: str, error: DiskFullError) -> None:
        was_enough = not self._problems
        if part not in self._problems:
            _log.warning("the disk is full", part=part, error=str(error))
        self._problems[part] = str(error)
        if was_enough:
            self._on_lack()

    def suffices(self, part: str) -> None:
        if self._problems.pop(part, None) is not None:
            _log.warning("the disk has room again", part=part)

    def is_lacked_by(self, part: str) -> bool:
        return part in self._problems

    @property
    def suffices_all(self) -> bool:
        return not self._problems

    @property
    def refusal(self) -> DiskFullError | None:
        """The error to answer writes with, None if there is room; a new object each time, as it is
        raised in many tasks."""
        for problem in list(self._problems.values()):
            return DiskFullError(problem)
        return None
