"""Snapshots of the store: SQLite's online backup, durable, so that the log may be cut.

A snapshot has two facts about the log itself: the index of the last entry it includes, and the
cluster's members.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from orchgit.raft.configuration import Configuration, ConfigurationEntry, Member
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.snapshot_files import SnapshotFile
from orchgit.state.connection import is_full
from orchgit.state.store import Store
from orchgit.state.transaction import WriteTxn

_PAGES = 1000
_MEMBERS = "raft_members"
_META = "SELECT value FROM meta WHERE key = ?"


def write_snapshot(store: Store, path: Path, disk: Disk = DISK) -> int:
    """Replaces the snapshot `path` by the store as it is now; returns the index of the log's last
    entry in it.

    Runs on a thread of its own; writers and readers go on. The file is durable on return.
    DiskFullError: there was no room, and the old snapshot is still there.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    try:
        with store.snapshot() as snapshot:
            target = sqlite3.connect(fresh)
            try:
                target.execute("PRAGMA synchronous = OFF")
                snapshot.connection.backup(target, pages=_PAGES, sleep=0)
                target.execute("PRAGMA journal_mode = DELETE")
            finally:
                target.close()
        return snapshot_file(path, disk).replace_by(fresh)
    except sqlite3.OperationalError as error:
        if not is_full(error):
            raise
        raise disk.full(path.parent) from error
    finally:
        fresh.unlink(missing_ok=True)


def snapshot_index(path: Path) -> int:
    """Returns the index of the log's last entry that a snapshot (or a store) has applied; 0 if
    there is no file."""
    if not path.exists():
        return 0
    meta = _meta(path, "applied_index", "index_offset")
    return int(meta.get("applied_index", 0)) - int(meta.get("index_offset", 0))


def store_members(txn: WriteTxn, index: int, members: tuple[Member, ...]) -> None:
    """Stores that the log's entry at `index` made these the members."""
    txn.meta.set(_MEMBERS, msgspec.msgpack.encode((index, members)))


def snapshot_members(path: Path) -> ConfigurationEntry | None:
    """Returns the members as of a snapshot (or a store); None if it does not know them."""
    value = _meta(path, _MEMBERS).get(_MEMBERS) if path.exists() else None
    if not value:
        return None
    index, members = msgspec.msgpack.decode(value, type=tuple[int, tuple[Member, ...]])
    return ConfigurationEntry(index, Configuration(members))


class StoreContents:
    """Snapshots of the store, as `SnapshotFile` reads them."""

    def index(self, path: Path) -> int:
        return snapshot_index(path)

    def members(self, path: Path) -> ConfigurationEntry | None:
        return snapshot_members(path)


def snapshot_file(path: Path, disk: Disk = DISK) -> SnapshotFile:
    """The snapshot of the store that is kept at `path`."""
    return SnapshotFile(path, StoreContents(), disk)


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
