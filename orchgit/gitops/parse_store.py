"""What files were parsed to, kept across restarts: one SQLite file in the data directory.

It is only ever a way to save work. Each record carries a digest over its key and content, so that
one that is damaged, or lies under a key that is not its own, is as good as absent; a file that is
no database any more is begun anew. Nothing here may fail a commit.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from orchgit.gitops.log import LOG

_DIGEST_BYTES = 16
_CHUNK = 500
_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS outcomes (
    key TEXT PRIMARY KEY, body BLOB NOT NULL, used INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outcomes_by_use ON outcomes (used);
"""


class ParseStore:
    """Bytes by key. Safe to use from several threads; no method raises for a broken file.

    `max_bytes` is for all records together; the least recently used leave first.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._generation = 0
        self._bytes = 0

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The records there are for these keys, each as it was put."""
        with self._lock:
            try:
                return self._get(keys)
            except (sqlite3.Error, OSError) as error:
                self._begin_anew(error)
                return {}

    def put(self, records: Mapping[str, bytes]) -> None:
        """Keep records; the least recently used make room where there is not enough."""
        with self._lock:
            try:
                self._put(records)
            except (sqlite3.Error, OSError) as error:
                self._begin_anew(error)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            self._close()

    # -- under the lock ---------------------------------------------------------------------

    def _get(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys or not (self._connection or self._path.exists()):
            return {}
        connection = self._open()
        if not self._bytes:
            return {}
        found: dict[str, bytes] = {}
        for at in range(0, len(keys), _CHUNK):
            chunk = keys[at : at + _CHUNK]
            marks = ",".join("?" * len(chunk))
            rows = connection.execute(
                f"SELECT key, body FROM outcomes WHERE key IN ({marks})",  # noqa: S608 - only marks
                chunk,
            )
            found.update((key, body[_DIGEST_BYTES:]) for key, body in rows if _is_whole(key, body))
        self._touch(connection, found)
        return found

    def _touch(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        with connection:
            connection.executemany(
                "UPDATE outcomes SET used = ? WHERE key = ? AND used < ?",
                [(self._generation, key, self._generation) for key in keys],
            )

    def _put(self, records: Mapping[str, bytes]) -> None:
        connection = self._open()
        rows = [(key, _digest(key, body) + body, self._generation) for key, body in records.items()]
        with connection:
            connection.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?)", rows)
        self._bytes += sum(len(body) for _, body, _ in rows)
        if self._bytes > self._max_bytes:
            self._make_room(connection)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Down to three quarters, so that not every commit has to."""
        self._bytes = _total_bytes(connection)  # what was replaced had been counted twice
        excess = self._bytes - self._max_bytes * 3 // 4
        if self._bytes <= self._max_bytes:
            return
        leaving = []
        for key, size in connection.execute(
            "SELECT key, length(body) FROM outcomes ORDER BY used, key"
        ):
            if excess <= 0:
                break
            leaving.append((key,))
            excess -= size
        with connection:
            connection.executemany("DELETE FROM outcomes WHERE key = ?", leaving)
        self._bytes = _total_bytes(connection)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Jobs may hold what a source's variables say: nobody else reads this file.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(self._path, check_same_thread=False)
            self._connection.executescript(_SCHEMA)
            (last,) = self._connection.execute("SELECT max(used) FROM outcomes").fetchone()
            self._generation = (last or 0) + 1
            self._bytes = _total_bytes(self._connection)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _begin_anew(self, error: Exception) -> None:
        LOG.warning("dropped a broken parse cache", path=str(self._path), error=str(error))
        self._close()
        for name in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self._path}{name}").unlink()


def _total_bytes(connection: sqlite3.Connection) -> int:
    (total,) = connection.execute("SELECT sum(length(body)) FROM outcomes").fetchone()
    return int(total or 0)


def _digest(key: str, body: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + b"\0" + body, digest_size=_DIGEST_BYTES).digest()


def _is_whole(key: str, body: object) -> bool:
    return isinstance(body, bytes) and body[:_DIGEST_BYTES] == _digest(key, body[_DIGEST_BYTES:])
