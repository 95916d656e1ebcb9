"""The log on disk: append-only segments, one fdatasync for all pending records, a checked start.

Only positions and terms of records are in memory; payloads are read back from the (cached) files,
the newest ones from a small tail. Owned by the raft thread.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from orchgit.errors import DiskFullError, InvariantError
from orchgit.raft.ports import Record, Vote
from orchgit.raft_log.checked_file import CheckedFile
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.segment import Ending, Segment
from orchgit.raft_log.vote import VoteFile

SEGMENT_BYTES = 16 << 20
_TAIL_BYTES = 4 << 20
_PROBE_BYTES = 64 << 10
_SUFFIX = ".segment"
_WAY_OUT = (
    "restore the data directory from a backup, or let this server join the cluster as a new one"
)


class Base(msgspec.Struct, frozen=True):
    """The last entry of the newest snapshot that was received: once that snapshot is installed, the
    log begins with this entry, at the least."""

    index: int = 0
    term: int = 0


class Journal:
    """Appended records are readable at once and durable after `sync`.

    After a DiskFullError of a writing method nothing has changed: try again when there is room, or
    give up the pending records by `take_back`. After any other error nothing can be written any
    more, since what is on disk is unknown. `synced_index` is the last durable record; `syncs` and
    `synced_bytes` count for metrics. `snapshot_index` returns that of the newest
    snapshot on disk.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int = SEGMENT_BYTES,
        disk: Disk = DISK,
        snapshot_index: Callable[[], int] = lambda: 0,
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._disk = disk
        self._failure: BaseException | None = None
        disk.make_dir(directory)
        self._votes = VoteFile(disk, directory / "vote")
        self._base = CheckedFile(disk, directory / "base", Base)
        # The process before this one may have died of just that.
        disk.sync_dir(directory)
        self._segments: deque[Segment] = deque()
        self._open_segments()
        self._pending: list[Record] = []
        self._tail: list[Record] = []
        self._tail_bytes = 0
        self.last_index = self._segments[-1].last_index if self._segments else 0
        """0 while nothing was ever appended."""
        self.synced_index = self.last_index
        self.syncs = 0
        self.synced_bytes = 0
        self._finish_reset(snapshot_index)
        self._check_vote()
        self._votes.reserve()

    # -- start -----------------------------------------------------------------------------------

    def _open_segments(self) -> None:
        paths = self._disk.list(self._directory, _SUFFIX)
        for path in paths:
            try:
                self._open_segment(path, is_last=path is paths[-1])
            except OSError as error:
                raise InvariantError(
                    f"cannot open the log: {path}: {error.strerror or error}; {_WAY_OUT}"
                ) from error

    def _open_segment(self, path: Path, is_last: bool) -> None:
        segment = Segment(self._disk, path, int(path.stem))
        ending = segment.scan()
        follows = not self._segments or self._segments[-1].last_index + 1 == segment.first_index
        if not follows or ending is Ending.DAMAGED or (ending is Ending.TORN and not is_last):
            raise InvariantError(
                f"cannot read the log: {path} is damaged or one before it is missing; {_WAY_OUT}"
            )
        if is_last and not segment.offsets:
            segment.delete()
            return
        if is_last:
            segment.renew()
        self._segments.append(segment)

    def _finish_reset(self, snapshot_index: Callable[[], int]) -> None:
        """Restarts the log at a snapshot that was installed just before a crash. One whose
        installation did not get so far changes nothing: the log and the older snapshot belong
        together."""
        base = self._base.value
        is_ahead = base.index > self.last_index
        is_another = not is_ahead and (
            base.index >= self.first_index and self.term(base.index) != base.term
        )
        if (is_ahead or is_another) and snapshot_index() >= base.index:
            self.reset(base.index)
            self.append(base.term, b"\x01")
            self.sync()

    def _check_vote(self) -> None:
        """Refuses a log without the vote of its term: this server could vote twice in that term."""
        if self._segments and self.vote.term < self.term(self.last_index):
            raise InvariantError(
                f"cannot trust {self._directory / 'vote'}: it is missing or older than the log, so "
                f"this server may have voted and not know it; {_WAY_OUT}"
            )

    # -- reading ---------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        """One more than `last_index` while the journal is empty."""
        return self._segments[0].first_index if self._segments else 1

    @property
    def vote(self) -> Vote:
        return self._votes.value

    def record(self, index: int) -> Record:
        """Raises IndexError if the journal does not hold it, InvariantError if it is damaged."""
        if not self.first_index <= index <= self.last_index:
            raise IndexError(index)
        if self._pending and index >= self._pending[0].index:
            return self._pending[index - self._pending[0].index]
        if self._tail and index >= self._tail[0].index:
            return self._tail[index - self._tail[0].index]
        return self._segment_of(index).record(index)

    def records(self, first_index: int, last_index: int) -> Iterable[Record]:
        """Returns the records from the first to the last index, in order; raises as `record`."""
        if not self._pending and self._tail and first_index >= (start := self._tail[0].index):
            return self._tail[first_index - start : last_index + 1 - start]
        return map(self.record, range(first_index, last_index + 1))

    def _segment_of(self, index: int) -> Segment:
        return next(one for one in reversed(self._segments) if one.first_index <= index)

    def term(self, index: int) -> int:
        if self._pending and index >= self._pending[0].index:
            return self._pending[index - self._pending[0].index].term
        segment = self._segment_of(index)
        return segment.terms[index - segment.first_index]

    def of_kind(self, kind: bytes) -> Iterator[int]:
        """Returns the indexes of the durable records whose payload begins with that byte, in
        order."""
        for segment in self._segments:
            yield from segment.of_kind(kind)

    # -- writing ---------------------------------------------------------------------------------

    def append(self, term: int, payload: bytes) -> int:
        """Returns the record's index. The record is written, and durable, at the next `sync`."""
        index = self.last_index = self.last_index + 1
        self._pending.append(Record(index, term, payload))
        return index

    def sync(self) -> None:
        """Everything appended is on disk when this returns."""
        if not self._pending and self._failure is None:
            return
        batch = self._pending
        with self._writing():
            segment = self._writable_segment(batch[0].index)
            before = segment.end
            self._write(segment, batch)
            segment.sync()
        self._pending = []
        self.synced_index = batch[-1].index
        self.syncs += 1
        self.synced_bytes += segment.end - before
        self._keep_tail(batch)

    def _write(self, segment: Segment, batch: list[Record]) -> None:
        """Cuts off what a full disk took only a part of: else it might come back.

        Reserved space is not used either while the state has no room to follow.
        """
        if segment.offsets and not self._disk.has_spare(self._directory):
            raise self._disk.full(self._directory)
        try:
            with self._disk.needing_room(self._directory):
                segment.append(batch, likes=self._segment_bytes)
        except DiskFullError as error:
            segment.cut(segment.last_index)
            self._drop_empty(error)
            raise

    def _drop_empty(self, error: DiskFullError) -> None:
        if self._segments[-1].offsets:
            return
        if len(self._segments) == 1:
            # The log itself would be gone; a restart begins it again.
            raise _cannot_begin(error)
        self._segments.pop().delete()

    def take_back(self) -> list[Record]:
        """Gives up the records that were appended and never synced. No member may have heard of
        them."""
        batch, self._pending = self._pending, []
        self.last_index = self.synced_index
        return batch

    def has_room(self) -> bool:
        """Returns whether there is space to write now, and reserves it."""
        if not self._disk.has_spare(self._directory, _PROBE_BYTES):
            return False
        try:
            with self._writing(), self._disk.needing_room(self._directory):
                self._segments[-1].reserve(_PROBE_BYTES, likes=self._segment_bytes)
        except DiskFullError:
            return False
        return True

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Makes the first failure final: after a failed sync the system may take the lost pages
        for clean, and report the next sync as a success."""
        if self._failure is not None:
            raise InvariantError(
                f"cannot write the log in {self._directory}: writing failed before "
                f"({self._failure}); look at the disk, then restart the server"
            )
        try:
            yield
        except DiskFullError:
            raise
        except BaseException as error:
            self._failure = error
            raise

    def _writable_segment(self, index: int) -> Segment:
        if self._segments and self._segments[-1].end < self._segment_bytes:
            return self._segments[-1]
        with self._disk.needing_room(self._directory):
            segment = Segment(self._disk, self._directory / f"{index:020d}{_SUFFIX}", index)
        self._segments.append(segment)
        self._disk.sync_dir(self._directory)
        return segment

    def _keep_tail(self, records: Sequence[Record]) -> None:
        """Adds to the records in memory; cuts them to a half when they are too many, as each cut
        of a list copies what is left of it."""
        self._tail += records
        self._tail_bytes += sum(len(record.payload) for record in records)
        if self._tail_bytes > _TAIL_BYTES:
            gone = 0
            while self._tail_bytes > _TAIL_BYTES // 2 and gone < len(self._tail) - 1:
                self._tail_bytes -= len(self._tail[gone].payload)
                gone += 1
            del self._tail[:gone]

    def store_vote(self, vote: Vote) -> None:
        """Returns when it is on disk."""
        if vote != self._votes.value:
            with self._writing():
                self._votes.store(vote)

    def store_base(self, index: int, term: int) -> None:
        """Stores where the log begins once the received snapshot that ends there is installed; call
        before it is, then `reset(index)`. Durable on return."""
        with self._writing():
            self._base.store(Base(index, term))

    def cut_after(self, last_index: int) -> None:
        """Drops the records after `last_index`: they conflict with the leader's. Durable on
        return."""
        while self._pending and self._pending[-1].index > last_index:
            self._pending.pop()
        self.last_index = min(self.last_index, last_index)
        if last_index >= self.synced_index:
            return
        self._clear_tail()
        with self._writing():
            while self._segments and self._segments[-1].first_index > last_index:
                self._segments.pop().delete()
            if self._segments:
                self._segments[-1].cut(last_index)
            self._disk.sync_dir(self._directory)
        self.synced_index = last_index

    def compact(self, upto_index: int) -> None:
        """Deletes whole segments that end at or before `upto_index`; the newest one stays."""
        with self._writing():
            while len(self._segments) > 1 and self._segments[0].last_index <= upto_index:
                self._segments.popleft().delete()
            self._disk.sync_dir(self._directory)

    def reset(self, next_index: int) -> None:
        """Drops everything: a snapshot that ends before `next_index` takes its place.

        A disk without room for the new log is an InvariantError: the old log is gone, and a restart
        finishes what was begun.
        """
        self._pending.clear()
        self._clear_tail()
        with self._writing():
            while self._segments:
                self._segments.pop().delete()
            try:
                self._writable_segment(next_index)
            except DiskFullError as error:
                raise _cannot_begin(error) from error
        self.last_index = self.synced_index = next_index - 1

    def _clear_tail(self) -> None:
        self._tail.clear()
        self._tail_bytes = 0

    def bytes_after(self, index: int) -> int:
        """Returns about how many bytes would have to be replayed over a snapshot at `index`."""
        return sum(one.end for one in self._segments if one.last_index > index)

    def close(self) -> None:
        """Closes the files. Pending records that cannot be written were not acknowledged, and are
        given up."""
        with contextlib.suppress(DiskFullError):
            self.sync()
        for segment in self._segments:
            segment.close()
        self._segments.clear()


def _cannot_begin(error: DiskFullError) -> InvariantError:
    return InvariantError(f"cannot begin the log: {error}, when it is started again")
