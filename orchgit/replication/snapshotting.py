"""Snapshots of the store: SQLite's online backup, fsynced, so that the journal may be cut.

What the journal said up to there about the log itself goes with it: the applied index, and the
cluster's members.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import msgspec
from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.replication.checked_file import CheckedFile
from orchgit.replication.disk import DISK, Disk
from orchgit.replication.membership import Configuration, Member, Placed
from orchgit.state.connection import is_full
from orchgit.state.store import Store
from orchgit.state.transaction import WriteTxn

_PAGES = 1000
_MEMBERS = "raft_members"
_META = "SELECT value FROM meta WHERE key = ?"
_PART_BYTES = 1 << 20
_KEEPING = threading.Lock()
"""One is received by the raft thread while another thread makes one."""


class Sums(msgspec.Struct, frozen=True):
    """(size, CRC-32C) of the snapshot, and of the one that is about to take its place."""

    sums: list[tuple[int, int]] = []


def write_snapshot(store: Store, path: Path, disk: Disk = DISK) -> int:
    """Replace `path` by the store as it is now; returns the index of the log's last entry in it.

    Runs on a thread of its own; writers and readers go on. When it returns the file is durable.
    DiskFullError: there was no room, and the old one is still there.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    try:
        _copy(store, fresh)
        return keep_snapshot(fresh, path, disk)
    except sqlite3.OperationalError as error:
        if not is_full(error):
            raise
        raise disk.full(path.parent) from error
    finally:
        fresh.unlink(missing_ok=True)


def _copy(store: Store, fresh: Path) -> None:
    with store.snapshot() as snapshot:
        target = sqlite3.connect(fresh)
        try:
            target.execute("PRAGMA synchronous = OFF")
            snapshot.connection.backup(target, pages=_PAGES, sleep=0)
            target.execute("PRAGMA journal_mode = DELETE")
        finally:
            target.close()


def keep_snapshot(fresh: Path, path: Path, disk: Disk = DISK) -> int:
    """Put a whole snapshot in the place of the one in `path`, unless that one is newer; durable
    when this returns the index of the one that is there now."""
    with _KEEPING:
        index, kept_index = snapshot_index(fresh), snapshot_index(path)
        if index < kept_index:
            return kept_index
        sums = _sums(path, disk)
        fd = disk.open(fresh)
        try:
            # Both are known until the new one is in place.
            sums.store(Sums([*sums.value.sums[-1:], _sum(disk, fd)]))
            disk.sync(fd)
        finally:
            disk.close(fd)
        disk.replace(fresh, path)
        disk.sync_dir(path.parent)
        return index


def check_snapshot(path: Path, disk: Disk = DISK) -> None:
    """InvariantError if it is not, byte for byte, what was written."""
    known = _sums(path, disk).value.sums
    fd = disk.open(path)
    try:
        damaged = bool(known) and _sum(disk, fd) not in known
    finally:
        disk.close(fd)
    if damaged:
        raise InvariantError(
            f"cannot use {path}: its checksum is wrong; restore the data directory from a backup, "
            "or let this server join the cluster as a new one"
        )


def _sums(path: Path, disk: Disk) -> CheckedFile[Sums]:
    return CheckedFile(disk, path.with_suffix(".sums"), Sums)


def _sum(disk: Disk, fd: int) -> tuple[int, int]:
    size, crc = 0, 0
    while part := disk.read(fd, _PART_BYTES, size):
        crc = crc32c(part, crc)
        size += len(part)
    return size, crc


def snapshot_index(path: Path) -> int:
    """The log's last entry that a snapshot (or a store) has applied; 0 if there is none."""
    if not path.exists():
        return 0
    meta = _meta(path, "applied_index", "index_offset")
    return int(meta.get("applied_index", 0)) - int(meta.get("index_offset", 0))


def keep_members(txn: WriteTxn, index: int, members: tuple[Member, ...]) -> None:
    """The log's entry at `index` said who the members are."""
    txn.meta.set(_MEMBERS, msgspec.msgpack.encode((index, members)))


def snapshot_members(path: Path) -> Placed | None:
    """Who the members were as of a snapshot (or a store); None if it was never told."""
    value = _meta(path, _MEMBERS).get(_MEMBERS) if path.exists() else None
    if not value:
        return None
    index, members = msgspec.msgpack.decode(value, type=tuple[int, tuple[Member, ...]])
    return Placed(index, Configuration(members))


def _meta(path: Path, *keys: str) -> dict[str, Any]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return {
            key: row[0]
            for key in keys
            if (row := connection.execute(_META, (key,)).fetchone()) is not None
        }
    finally:
        connection.close()
