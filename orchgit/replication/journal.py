"""The log on disk: append-only segments, one fdatasync for all that waits, a checked start.

Only positions and terms of records are in memory; payloads are read back from the (cached) files,
the newest ones from a small tail. Owned by the raft thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchgit.errors import InvariantError
from orchgit.replication.segment import Record, Segment, sync_dir
from orchgit.replication.vote import Base, CheckedFile, Vote

SEGMENT_BYTES = 16 << 20
_TAIL_BYTES = 4 << 20


class Journal:
    """Appended records are readable at once and durable after `sync`.

    `synced_index` is the last durable one; `syncs` and `synced_bytes` count for metrics.
    """

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        directory.mkdir(parents=True, exist_ok=True)
        self._votes = CheckedFile(directory / "vote", Vote)
        self._base = CheckedFile(directory / "base", Base)
        self._segments: deque[Segment] = deque(self._open_segments())
        self._pending: list[Record] = []
        self._tail: deque[Record] = deque()
        self._tail_bytes = 0
        self.synced_index = self.last_index
        self.syncs = 0
        self.synced_bytes = 0
        self._finish_reset()

    # -- start -----------------------------------------------------------------------------------

    def _open_segments(self) -> Iterator[Segment]:
        paths = sorted(self._directory.glob("*.segment"))
        expected: int | None = None
        for path in paths:
            segment = Segment(path, int(path.stem))
            whole = segment.scan()
            is_last = path is paths[-1]
            if expected not in (None, segment.first_index) or not (whole or is_last):
                raise self._damaged(segment)
            if is_last:
                self._cut_torn_tail(segment)
            expected = segment.last_index + 1
            yield segment

    def _finish_reset(self) -> None:
        """A snapshot was received, but the crash came before the log followed it."""
        base = self._base.value
        if base.index > self.last_index:
            self.reset(base.index)
            self.append(base.term, b"\x01")
            self.sync()

    def _cut_torn_tail(self, segment: Segment) -> None:
        """What was never synced was never acknowledged.

        The file is cut even if it seems to end well: pages written out of order may have left an
        old record further on, where a later one could end and bring it back.
        """
        segment.cut(segment.last_index)
        segment.allocate(self._segment_bytes)
        segment.sync()

    def _damaged(self, segment: Segment) -> InvariantError:
        return InvariantError(
            f"cannot read the log: {segment.path} is damaged or one before it is missing; restore "
            "the data directory from a backup, or let this server join the cluster as a new one"
        )

    # -- reading ---------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        """One more than `last_index` while the journal is empty."""
        return self._segments[0].first_index if self._segments else 1

    @property
    def last_index(self) -> int:
        if self._pending:
            return self._pending[-1].index
        return self._segments[-1].last_index if self._segments else 0

    @property
    def vote(self) -> Vote:
        return self._votes.value

    def record(self, index: int) -> Record:
        """Raises IndexError if the journal does not hold it."""
        if not self.first_index <= index <= self.last_index:
            raise IndexError(index)
        if self._pending and index >= self._pending[0].index:
            return self._pending[index - self._pending[0].index]
        if self._tail and index >= self._tail[0].index:
            return self._tail[index - self._tail[0].index]
        segment = self._segment_of(index)
        return Record(index, segment.terms[index - segment.first_index], segment.payload(index))

    def _segment_of(self, index: int) -> Segment:
        return next(one for one in reversed(self._segments) if one.first_index <= index)

    def term(self, index: int) -> int:
        if self._pending and index >= self._pending[0].index:
            return self._pending[index - self._pending[0].index].term
        segment = self._segment_of(index)
        return segment.terms[index - segment.first_index]

    # -- writing ---------------------------------------------------------------------------------

    def append(self, term: int, payload: bytes) -> int:
        """The record's index. Written and durable at the next `sync`."""
        index = self.last_index + 1
        self._pending.append(Record(index, term, payload))
        return index

    def sync(self) -> None:
        """Everything appended is on disk when this returns; an OSError means it may not be."""
        if not self._pending:
            return
        batch = self._pending
        segment = self._writable_segment(batch[0].index)
        before = segment.end
        segment.append(batch)
        segment.sync()
        self._pending = []
        self.synced_index = batch[-1].index
        self.syncs += 1
        self.synced_bytes += segment.end - before
        self._keep_tail(batch)

    def _writable_segment(self, index: int) -> Segment:
        if self._segments and self._segments[-1].end < self._segment_bytes:
            return self._segments[-1]
        segment = Segment(self._directory / f"{index:020d}.segment", index)
        segment.allocate(self._segment_bytes)
        sync_dir(self._directory)
        self._segments.append(segment)
        return segment

    def _keep_tail(self, records: Iterable[Record]) -> None:
        for record in records:
            self._tail.append(record)
            self._tail_bytes += len(record.payload)
        while self._tail_bytes > _TAIL_BYTES and len(self._tail) > 1:
            self._tail_bytes -= len(self._tail.popleft().payload)

    def store_vote(self, vote: Vote) -> None:
        """Returns when it is on disk."""
        if vote != self._votes.value:
            self._votes.store(vote)

    def store_base(self, index: int, term: int) -> None:
        """Before `reset(index)`: a snapshot of that entry is on disk. Durable on return."""
        self._base.store(Base(index, term))

    def cut_after(self, last_index: int) -> None:
        """Drop records after `last_index`: they conflict with the leader's. Durable on return."""
        self.sync()
        self._forget_tail()
        while self._segments and self._segments[-1].first_index > last_index:
            self._segments.pop().delete()
        if self._segments:
            self._segments[-1].cut(last_index)
            self._segments[-1].sync()
        sync_dir(self._directory)
        self.synced_index = min(self.synced_index, last_index)

    def compact(self, upto_index: int) -> None:
        """Delete whole segments that end at or before `upto_index`; the newest one stays."""
        while len(self._segments) > 1 and self._segments[0].last_index <= upto_index:
            self._segments.popleft().delete()
        sync_dir(self._directory)

    def reset(self, next_index: int) -> None:
        """Drop everything: a snapshot that ends before `next_index` takes its place."""
        self._pending.clear()
        self._forget_tail()
        while self._segments:
            self._segments.pop().delete()
        self._writable_segment(next_index)
        self.synced_index = next_index - 1

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._tail_bytes = 0

    def bytes_after(self, index: int) -> int:
        """About how much would have to be replayed over a snapshot at `index`."""
        return sum(one.end for one in self._segments if one.last_index > index)

    def close(self) -> None:
        self.sync()
        for segment in self._segments:
            segment.close()
        self._segments.clear()
