"""Snapshots of the store: SQLite's online backup, fsynced, so that the journal may be cut."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from orchgit.replication.segment import sync_dir
from orchgit.state.store import Store

_PAGES = 1000


def write_snapshot(store: Store, path: Path) -> int:
    """Replace `path` by the store as it is now; returns the index of the log's last entry in it.

    Runs on a thread of its own; writers and readers go on. When it returns the file is durable.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with store.snapshot() as snapshot:
        index = snapshot.log_index()
        target = sqlite3.connect(fresh)
        try:
            target.execute("PRAGMA synchronous = OFF")
            snapshot.connection.backup(target, pages=_PAGES, sleep=0)
            target.execute("PRAGMA journal_mode = DELETE")
        finally:
            target.close()
    _sync_file(fresh)
    fresh.replace(path)
    sync_dir(path.parent)
    return index


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def snapshot_index(path: Path) -> int:
    """The log's last entry that a snapshot (or a store) has applied; 0 if there is none."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        sql = "SELECT key, value FROM meta WHERE key IN ('applied_index', 'index_offset')"
        meta = dict(connection.execute(sql).fetchall())
        return int(meta.get("applied_index", 0)) - int(meta.get("index_offset", 0))
    finally:
        connection.close()
