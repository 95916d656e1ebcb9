"""What the core needs of the disk: a log with the vote, and snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from orchgit.replication.membership import Placed
from orchgit.replication.raft_progress import SnapshotRef
from orchgit.replication.segment import Record
from orchgit.replication.vote import Vote

NO_OP = b"\x01"
"""The first byte of an entry says what it is; this one does nothing."""


class Log(Protocol):
    """The journal, as far as Raft needs it."""

    synced_index: int

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    @property
    def vote(self) -> Vote: ...
    def store_vote(self, vote: Vote) -> None: ...
    def term(self, index: int) -> int: ...
    def record(self, index: int) -> Record: ...
    def records(self, first_index: int, last_index: int) -> Iterable[Record]: ...
    def of_kind(self, kind: bytes) -> Iterable[int]:
        """Indexes of the records whose payload begins with that byte, in order."""
        ...

    def append(self, term: int, payload: bytes) -> int: ...
    def cut_after(self, last_index: int) -> None: ...
    def reset(self, next_index: int) -> None: ...
    def sync(self) -> None: ...


class Snapshots(Protocol):
    """Where snapshots come from and go to."""

    def latest(self) -> SnapshotRef | None:
        """The newest on disk; the log still has the entry of its index."""

    def read(self, ref: SnapshotRef, offset: int) -> bytes | None:
        """The next bytes; None if that snapshot is gone."""

    def receive(self, ref: SnapshotRef, offset: int, data: bytes) -> int:
        """Keep a chunk, if it is the wanted one; the offset that is wanted next."""

    def install(self, ref: SnapshotRef) -> Placed | None:
        """All of it was received: durable on return, and found at the next start. The members as
        of the snapshot, if it knows them."""
