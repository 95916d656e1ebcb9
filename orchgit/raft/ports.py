"""What Raft needs of the disk: a log with the vote, and snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from orchgit.raft.configuration import ConfigurationEntry

NO_OP = b"\x01"
"""The first byte of an entry says what kind it is; an entry of this kind does nothing."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One entry of the log. It holds numbers and bytes only, so the garbage collector need not
    track it."""

    index: int
    term: int
    payload: bytes


class Vote(msgspec.Struct, frozen=True):
    """The term and the vote of a member. `from_index` is the entry by which a leader admitted this
    server: it may have been a member before, with a disk that is lost, so it votes for nobody
    before its log has that entry."""

    term: int = 0
    voted_for: str | None = None
    from_index: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """Names a snapshot of the state as of an entry of the log; `size` in bytes."""

    index: int
    term: int
    size: int


class LogStorage(Protocol):
    """The log on disk. Appended entries are durable after `sync`; everything else is durable on
    return."""

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
        """Returns the indexes of the records whose payload begins with that byte, in order."""
        ...

    def append(self, term: int, payload: bytes) -> int: ...
    def cut_after(self, last_index: int) -> None: ...
    def reset(self, next_index: int) -> None: ...
    def sync(self) -> None: ...


class Snapshots(Protocol):
    """The snapshots of a member: its own, and the one that it is receiving."""

    def latest(self) -> SnapshotRef | None:
        """Returns the newest snapshot on disk; the log still has the entry of its index."""

    def read(self, ref: SnapshotRef, offset: int) -> bytes | None:
        """Returns the next bytes from `offset`; None if that snapshot is gone."""

    def receive(self, ref: SnapshotRef, offset: int, data: bytes) -> int:
        """Keeps a chunk, if it is the wanted one; returns the offset that is wanted next."""

    def install(self, ref: SnapshotRef) -> ConfigurationEntry | None:
        """Makes a snapshot that was received whole this member's own: durable on return, and found
        at the next start. Returns the members as of the snapshot, if it knows them."""
