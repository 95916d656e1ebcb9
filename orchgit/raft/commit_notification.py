"""When a leader tells its followers what is committed.

With the next entries; when none follow, by a message of its own after a time. One for each commit,
and its answers, would cost all members as much as the entries.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.raft.progress import Progress

_TELL_S = 0.002
_BUSY_S = 0.008
"""Where entries were sent at shorter intervals, the next ones are about to come: they are waited
for so long."""


class Telling:
    """`at_s`: when to tell, if no entries are sent until then; None: there is nothing to tell."""

    def __init__(self) -> None:
        self.at_s: float | None = None
        self._sent_index = 0
        self._sent_s = 0.0
        self._wait_s = _TELL_S

    def is_due(self, now_s: float) -> bool:
        return self.at_s is not None and now_s >= self.at_s

    def sent(self, last_index: int, now_s: float) -> None:
        """Entries were sent up to there."""
        if last_index > self._sent_index:
            often = now_s - self._sent_s < _BUSY_S
            self._wait_s = _BUSY_S if often else _TELL_S
            self._sent_index, self._sent_s = last_index, now_s

    def plan(self, peers: Iterable[Progress], commit_index: int, now_s: float) -> None:
        if not any([peer.is_to_be_told(commit_index, now_s) for peer in peers]):
            self.at_s = None
        elif self.at_s is None or now_s >= self.at_s:
            self.at_s = now_s + self._wait_s

    def forget(self) -> None:
        self.at_s = None
