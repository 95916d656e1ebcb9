"""Opening the database file: the one writer, and readers in this process and others."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # The log is the durability: it is fsynced before anything is applied, and the store notices
    # at start when the machine went down with writes in its cache (see replication/recovery.py).
    "PRAGMA synchronous = OFF",
    "PRAGMA wal_autocheckpoint = 8000",
    "PRAGMA temp_store = MEMORY",
    # A limit, not a reserve: a million allocations' indexes, which are written in random order,
    # stay in memory up to it; a small cluster never comes near.
    "PRAGMA cache_size = -262144",
)


def open_writer(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    for pragma in _WRITER_PRAGMAS:
        connection.execute(pragma)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Returns a connection that cannot write; any thread may use it, one at a time."""
    connection = sqlite3.connect(
        f"file:{path}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -8192")
    return connection


def is_full(error: BaseException) -> bool:
    """Whether the error means a full disk; then nothing was changed, and a retry may succeed."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) in _FULL


_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
