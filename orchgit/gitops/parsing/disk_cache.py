"""The disk cache of parsed files: one SQLite file in the data directory, kept across restarts.

Each record carries a digest of its key and content, so a record that is damaged or has another key
counts as absent. A file that is no database any more is replaced by an empty one. No fault of the
cache fails a commit.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

_log = structlog.get_logger(component="gitops")


_DIGEST_BYTES = 16
_CHUNK = 500
_SCHEMA = """
PRAGMA page_size = 16384;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS records (id BLOB PRIMARY KEY, body BLOB NOT NULL, used INTEGER NOT NULL);
"""


class DiskParseCache:
    """Caches bytes by key. Safe to use from several threads; no method raises for a broken file.

    The keys name everything that a record depends on, so nothing invalidates one. `max_bytes` is
    for all records together; the least recently used leave first. Reads do not wait for writes:
    which records were used is written when room is made, and at the end.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._generation = 0
        self._bytes = 0
        self._used: set[bytes] = set()

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Returns the records that are cached under these keys."""
        with self._lock:
            try:
                return self._get(keys)
            except (sqlite3.Error, OSError) as error:
                self._start_empty(error)
                return {}

    def put(self, records: Mapping[str, bytes]) -> None:
        """Caches records. Above `max_bytes` the least recently used leave."""
        with self._lock:
            try:
                self._put(records)
            except (sqlite3.Error, OSError) as error:
                self._start_empty(error)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            try:
                self._touch()
            except (sqlite3.Error, OSError) as error:
                self._start_empty(error)
            self._close()

    # -- under the lock ---------------------------------------------------------------------

    def _get(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys or not (self._connection or self._path.exists()):
            return {}
        connection = self._open()
        if not self._bytes:
            return {}
        found: dict[str, bytes] = {}
        wanted = {_id(key): key for key in keys}
        ids = list(wanted)
        for at in range(0, len(ids), _CHUNK):
            chunk = ids[at : at + _CHUNK]
            for id_, body in connection.execute(
                f"SELECT id, body FROM records WHERE id IN ({_marks(chunk)})",  # noqa: S608
                chunk,
            ):
                content = _content(id_, body)
                if content is not None:
                    found[wanted[id_]] = content
                    self._used.add(id_)
        return found

    def _touch(self) -> None:
        used, self._used = list(self._used), set()
        if not used or self._connection is None:
            return
        with self._connection as connection:
            for at in range(0, len(used), _CHUNK):
                chunk = used[at : at + _CHUNK]
                connection.execute(
                    f"UPDATE records SET used = {self._generation} "  # noqa: S608 - a number
                    f"WHERE id IN ({_marks(chunk)})",
                    chunk,
                )

    def _put(self, records: Mapping[str, bytes]) -> None:
        connection = self._open()
        pairs = [(_id(key), body) for key, body in records.items()]
        rows = [(id_, _digest(id_, body) + body, self._generation) for id_, body in pairs]
        with connection:
            connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", rows)
        self._bytes += sum(len(body) for _, body, _ in rows)
        if self._bytes > self._max_bytes:
            self._touch()
            self._make_room(connection)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Deletes records down to three quarters of the limit, so that not every commit has to."""
        self._bytes = _total_bytes(connection)  # what was replaced had been counted twice
        excess = self._bytes - self._max_bytes * 3 // 4
        if self._bytes <= self._max_bytes:
            return
        leaving = []
        for id_, size in connection.execute(
            "SELECT id, length(body) FROM records ORDER BY used, id"
        ):
            if excess <= 0:
                break
            leaving.append((id_,))
            excess -= size
        with connection:
            connection.executemany("DELETE FROM records WHERE id = ?", leaving)
        self._bytes = _total_bytes(connection)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Jobs may hold what a source's variables say: nobody else reads this file.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(self._path, check_same_thread=False)
            self._connection.executescript(_SCHEMA)
            (last,) = self._connection.execute("SELECT max(used) FROM records").fetchone()
            self._generation = (last or 0) + 1
            self._bytes = _total_bytes(self._connection)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _start_empty(self, error: Exception) -> None:
        _log.warning("dropped a broken parse cache", path=str(self._path), error=str(error))
        self._close()
        for name in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self._path}{name}").unlink()


def _total_bytes(connection: sqlite3.Connection) -> int:
    (total,) = connection.execute("SELECT sum(length(body)) FROM records").fetchone()
    return int(total or 0)


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _id(key: str) -> bytes:
    """Returns a short digest of the key; the record's own digest confirms the record."""
    return hashlib.sha256(key.encode()).digest()[:_DIGEST_BYTES]


def _digest(id_: bytes, body: bytes) -> bytes:
    digest = hashlib.sha256(id_)
    digest.update(body)
    return digest.digest()[:_DIGEST_BYTES]


def _content(id_: bytes, record: object) -> bytes | None:
    """Returns what was put under this id, or None for a record that is damaged or has another
    id."""
    if not isinstance(record, bytes):
        return None
    body = record[_DIGEST_BYTES:]
    return body if record.startswith(_digest(id_, body)) else None
