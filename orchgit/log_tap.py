"""Lets somebody follow the log lines of this process as they are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MAX_WAITING_LINES = 512
"""Of one follower; what comes while so many wait is dropped and counted."""


class LogTap:
    """The lines of a level and above for one follower. `wake` is called on the thread that logs.
    `with_location`: each line names the place in the code."""

    def __init__(
        self, level: int, as_json: bool, wake: Callable[[], None], with_location: bool = False
    ) -> None:
        self.level = level
        self.as_json = as_json
        self.with_location = with_location
        self._wake = wake
        self._lines: deque[str] = deque()
        self._dropped = 0

    def push(self, line: str) -> None:
        if len(self._lines) >= MAX_WAITING_LINES:
            self._dropped += 1
            return
        self._lines.append(line)
        self._wake()

    def take(self) -> list[str]:
        """Returns the lines that wait, and forgets them."""
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if self._dropped:
            lines.append(f"[WARN] monitor dropped {self._dropped} logs during monitor request")
            self._dropped = 0
        return lines
