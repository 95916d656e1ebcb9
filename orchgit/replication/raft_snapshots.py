"""Snapshots of the store as Raft streams them: read from one file, received into another."""

from __future__ import annotations

import os
from pathlib import Path

from orchgit.errors import InvariantError
from orchgit.replication.disk import DISK, Disk
from orchgit.replication.journal import Journal
from orchgit.replication.membership import Placed
from orchgit.replication.raft_progress import SnapshotRef
from orchgit.replication.snapshotting import keep_snapshot, snapshot_index, snapshot_members

_CHUNK_BYTES = 1 << 20
_KEPT_OPEN = 3


class FileSnapshots:
    """Belongs to the raft thread. `path` is the newest snapshot, replaced whole by whoever makes
    one; an older one goes on being streamed from its open file."""

    def __init__(self, path: Path, journal: Journal, disk: Disk = DISK) -> None:
        self._path = path
        self._disk = disk
        self._incoming_path = path.with_suffix(".incoming")
        self._journal = journal
        self._open: dict[SnapshotRef, int] = {}
        self._latest: tuple[tuple[int, int], SnapshotRef] | None = None
        self._incoming: tuple[SnapshotRef, int] | None = None
        self._received = 0

    # -- giving ----------------------------------------------------------------------------------

    def latest(self) -> SnapshotRef | None:
        """None as well while it is being replaced, or the journal lacks the entry of its index."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        identity = _identity(os.fstat(fd))
        if self._latest is not None and self._latest[0] == identity:
            os.close(fd)
            return self._latest[1]
        index = snapshot_index(self._path)
        known = self._journal.first_index <= index <= self._journal.last_index
        if not known or _identity(self._path.stat()) != identity:
            os.close(fd)
            return None
        ref = SnapshotRef(index, self._journal.term(index), os.fstat(fd).st_size)
        self._latest = identity, ref
        self._keep_open(ref, fd)
        return ref

    def _keep_open(self, ref: SnapshotRef, fd: int) -> None:
        if ref in self._open:
            os.close(self._open.pop(ref))
        self._open[ref] = fd
        while len(self._open) > _KEPT_OPEN:
            os.close(self._open.pop(next(iter(self._open))))

    def read(self, ref: SnapshotRef, offset: int) -> bytes | None:
        fd = self._open.get(ref)
        return os.pread(fd, _CHUNK_BYTES, offset) if fd is not None else None

    # -- taking ----------------------------------------------------------------------------------

    def receive(self, ref: SnapshotRef, offset: int, data: bytes) -> int:
        """Another leader begins at 0 again: its file need not be the same byte for byte."""
        if self._incoming is None or self._incoming[0] != ref or offset == 0:
            self._begin(ref)
        assert self._incoming is not None
        if offset == self._received and offset + len(data) <= ref.size:
            self._disk.write(self._incoming[1], data, offset)
            self._received += len(data)
        return self._received

    def _begin(self, ref: SnapshotRef) -> None:
        """Have the room for all of it before the first part is taken."""
        self._forget_incoming()
        self._received = 0
        disk, directory = self._disk, self._path.parent
        if not disk.has_spare(directory, ref.size):
            raise disk.full(directory)
        with disk.needing_room(directory):
            fd = disk.open(self._incoming_path)
            self._incoming = ref, fd
            disk.truncate(fd, 0)
            disk.allocate(fd, ref.size)

    def install(self, ref: SnapshotRef) -> Placed | None:
        """It becomes this member's own newest one."""
        assert self._incoming is not None
        self._forget_incoming()
        index = snapshot_index(self._incoming_path)
        if index != ref.index:
            raise InvariantError(
                f"cannot install the snapshot that was received: it is of index {index}, not "
                f"{ref.index}; check the disk of the leader, then restart this server"
            )
        keep_snapshot(self._incoming_path, self._path, self._disk)
        self._journal.store_base(ref.index, ref.term)
        return snapshot_members(self._path)

    def _forget_incoming(self) -> None:
        if self._incoming is not None:
            self._disk.close(self._incoming[1])
            self._incoming = None

    def close(self) -> None:
        self._forget_incoming()
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns
