"""Snapshot files: replaced whole and checksummed on disk; streamed to and received from members."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Protocol

import msgspec
from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.raft.configuration import ConfigurationEntry
from orchgit.raft.ports import SnapshotRef
from orchgit.raft_log.checked_file import CheckedFile
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.journal import Journal

_CHUNK_BYTES = 1 << 20
_KEPT_OPEN = 3
_REPLACING = threading.Lock()
"""The raft thread may receive a snapshot while another thread makes one."""


class SnapshotContents(Protocol):
    """Reads what a snapshot says of itself; the format of the file is the state's affair."""

    def index(self, path: Path) -> int:
        """Returns the index of the log's last entry in the snapshot; 0 if there is no file."""

    def members(self, path: Path) -> ConfigurationEntry | None:
        """Returns the members as of the snapshot; None if the snapshot does not know them."""


class Sums(msgspec.Struct, frozen=True):
    """(size, CRC-32C) of the snapshot, and of the one that is about to replace it."""

    sums: list[tuple[int, int]] = []


class SnapshotFile:
    """The newest snapshot of a member: one file, and beside it its checksum."""

    def __init__(self, path: Path, contents: SnapshotContents, disk: Disk = DISK) -> None:
        self.path = path
        self.contents = contents
        self.disk = disk

    @property
    def index(self) -> int:
        """The index of the log's last entry in the snapshot; 0 if there is none."""
        return self.contents.index(self.path)

    def replace_by(self, fresh: Path) -> int:
        """Replaces the snapshot by the file `fresh`, unless the snapshot is newer. Durable when
        this returns the index of the snapshot that is kept. DiskFullError: the snapshot is the one
        that it was."""
        with _REPLACING:
            index, kept_index = self.contents.index(fresh), self.index
            if index < kept_index:
                return kept_index
            sums = self._sums()
            with self.disk.needing_room(self.path.parent):
                fd = self.disk.open(fresh)
                try:
                    # Both checksums are known until the new file is in place.
                    sums.store(Sums([*sums.value.sums[-1:], self._sum(fd)]))
                    self.disk.sync(fd)
                finally:
                    self.disk.close(fd)
                self.disk.replace(fresh, self.path)
            self.disk.sync_dir(self.path.parent)
            return index

    def check(self) -> None:
        """Raises InvariantError if the file is not, byte for byte, what was written."""
        known = self._sums().value.sums
        fd = self.disk.open(self.path)
        try:
            damaged = bool(known) and self._sum(fd) not in known
        finally:
            self.disk.close(fd)
        if damaged:
            raise InvariantError(
                f"cannot use {self.path}: its checksum is wrong; restore the data directory from a "
                "backup, or let this server join the cluster as a new one"
            )

    def _sums(self) -> CheckedFile[Sums]:
        return CheckedFile(self.disk, self.path.with_suffix(".sums"), Sums)

    def _sum(self, fd: int) -> tuple[int, int]:
        size, crc = 0, 0
        while part := self.disk.read(fd, _CHUNK_BYTES, size):
            crc = crc32c(part, crc)
            size += len(part)
        return size, crc


class FileSnapshots:
    """Streams the newest snapshot to other members, and receives theirs; on the raft thread.

    A snapshot that was replaced meanwhile is streamed on from its open file."""

    def __init__(self, file: SnapshotFile, journal: Journal) -> None:
        self._file = file
        self._disk = file.disk
        self._incoming_path = file.path.with_suffix(".incoming")
        self._journal = journal
        self._open: dict[SnapshotRef, int] = {}
        self._latest: tuple[tuple[int, int], SnapshotRef] | None = None
        self._incoming: tuple[SnapshotRef, int] | None = None
        self._received = 0

    # -- sending ---------------------------------------------------------------------------------

    def latest(self) -> SnapshotRef | None:
        """Returns None also while the snapshot is being replaced, or if the journal lacks the entry
        of its index."""
        try:
            fd = os.open(self._file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        identity = _identity(os.fstat(fd))
        if self._latest is not None and self._latest[0] == identity:
            os.close(fd)
            return self._latest[1]
        index = self._file.index
        known = self._journal.first_index <= index <= self._journal.last_index
        if not known or _identity(self._file.path.stat()) != identity:
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

    # -- receiving -------------------------------------------------------------------------------

    def receive(self, ref: SnapshotRef, offset: int, data: bytes) -> int:
        """Another leader starts at 0 again: its file need not be the same byte for byte."""
        if self._incoming is None or self._incoming[0] != ref or offset == 0:
            self._begin(ref)
        assert self._incoming is not None
        if offset == self._received and offset + len(data) <= ref.size:
            # Some file systems need room even to write into what was reserved.
            with self._disk.needing_room(self._file.path.parent):
                self._disk.write(self._incoming[1], data, offset)
            self._received += len(data)
        return self._received

    def _begin(self, ref: SnapshotRef) -> None:
        """Reserves the room for all of it before the first chunk is taken."""
        self._forget_incoming()
        self._received = 0
        disk, directory = self._disk, self._file.path.parent
        if not disk.has_spare(directory, ref.size):
            raise disk.full(directory)
        with disk.needing_room(directory):
            fd = disk.open(self._incoming_path)
            self._incoming = ref, fd
            disk.truncate(fd, 0)
            disk.allocate(fd, ref.size)

    def install(self, ref: SnapshotRef) -> ConfigurationEntry | None:
        """Makes the received snapshot this member's own newest one.

        The log learns first where it is to begin, and heeds that from the next start on only if the
        snapshot got into its place: a crash leaves the old snapshot with the old log, or the new
        one with the new log.
        """
        assert self._incoming is not None
        self._forget_incoming()
        index = self._file.contents.index(self._incoming_path)
        if index != ref.index:
            raise InvariantError(
                f"cannot install the snapshot that was received: it is of index {index}, not "
                f"{ref.index}; check the disk of the leader, then restart this server"
            )
        self._journal.store_base(ref.index, ref.term)
        self._file.replace_by(self._incoming_path)
        return self._file.contents.members(self._file.path)

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
