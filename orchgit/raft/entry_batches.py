"""Entries as they go to followers, taken from the log."""

from __future__ import annotations

from orchgit.raft.messages import Entry
from orchgit.raft.ports import Log

_BATCH_BYTES = 256 << 10
_BATCH_ENTRIES = 1024
_NONE: tuple[int, list[Entry]] = 0, []


class Batches:
    """Most of the time the same entries go to all followers: they are made once. Kept for one
    pass over the followers only, in which the log does not change."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._made = _NONE

    def begin_at(self, index: int) -> list[Entry]:
        """From there to the end of what is on disk, or as many as one message holds."""
        if self._made[0] != index:
            self._made = index, self._made_from(index)
        return self._made[1]

    def _made_from(self, index: int) -> list[Entry]:
        entries: list[Entry] = []
        size = 0
        last_index = min(self._log.synced_index, index + _BATCH_ENTRIES - 1)
        for record in self._log.records(index, last_index):
            entries.append(Entry(record.term, record.payload))
            size += len(record.payload)
            if size >= _BATCH_BYTES:
                break
        return entries

    def forget(self) -> None:
        self._made = _NONE
