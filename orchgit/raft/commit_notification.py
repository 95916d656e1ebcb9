"""When a leader notifies its followers of what is committed.

With the next entries; if none follow, by a message of its own after a time. One message for each
commit, and its replies, would cost all members as much as the entries.
"""

from __future__ import annotations

from orchgit.raft.progress import ProgressTracker
from orchgit.raft.state import RaftState

_WAIT_S = 0.002
_BUSY_S = 0.008
"""Where entries are sent at shorter intervals, the next ones are expected soon: a notification
waits for them for so long."""


class CommitNotification:
    """`due_s` is when to notify, unless entries are sent before; None: there is nothing to tell."""

    def __init__(self, state: RaftState, tracker: ProgressTracker) -> None:
        self._state = state
        self._tracker = tracker
        self.due_s: float | None = None
        self._sent_index = 0
        self._sent_s = 0.0
        self._wait_s = _WAIT_S

    @property
    def is_due(self) -> bool:
        return self.due_s is not None and self._state.now_s >= self.due_s

    def plan(self, sent_index: int) -> None:
        """Entries up to `sent_index` were sent."""
        now_s, commit_index = self._state.now_s, self._state.log.commit_index
        if sent_index > self._sent_index:
            self._wait_s = _BUSY_S if now_s - self._sent_s < _BUSY_S else _WAIT_S
            self._sent_index, self._sent_s = sent_index, now_s
        if not any([one.lacks_commit(commit_index, now_s) for one in self._tracker.peers.values()]):
            self.due_s = None
        elif self.due_s is None or now_s >= self.due_s:
            self.due_s = now_s + self._wait_s
