"""Entries as they go to followers, taken from the log."""

from __future__ import annotations

from orchgit.raft.messages import LogEntry
from orchgit.raft.ports import LogStorage

_BATCH_BYTES = 256 << 10
_BATCH_ENTRIES = 1024


class EntryBatches:
    """Most of the time the same entries go to all followers, so a batch is made once. It is cached
    during one pass over the followers only, in which the log does not change."""

    def __init__(self, log: LogStorage) -> None:
        self._log = log
        self._cached: tuple[int, list[LogEntry]] = 0, []

    def starting_at(self, index: int) -> list[LogEntry]:
        """Returns the synced entries from there on, or as many as one message holds."""
        if self._cached[0] == index:
            return self._cached[1]
        entries: list[LogEntry] = []
        size = 0
        last_index = min(self._log.synced_index, index + _BATCH_ENTRIES - 1)
        for record in self._log.records(index, last_index):
            entries.append(LogEntry(record.term, record.payload))
            size += len(record.payload)
            if size >= _BATCH_BYTES:
                break
        self._cached = index, entries
        return entries

    def clear(self) -> None:
        self._cached = 0, []
