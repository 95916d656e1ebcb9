"""The thread that writes the agent's state, many facts in one transaction.

On a full disk nothing is lost: what could not be written (the latest of each fact) is tried again
until there is room, and callers that wait for a fact to be on disk wait that long.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import structlog

from orchgit.errors import UnavailableError

_log = structlog.get_logger(component="agent")

_RETRY_S = 0.5

_TEMPORARY = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
)
"""The same write may succeed later, as with a disk that is full, or not there."""

Statements = Callable[[sqlite3.Connection], None]


class Write(NamedTuple):
    """`key` names the fact: a later write of the same key takes the place of an earlier one."""

    key: tuple[str, ...]
    statements: Statements


class _Batch:
    """What is to be committed next, in the order of the latest write of each fact."""

    def __init__(self) -> None:
        self.writes: dict[tuple[str, ...], Statements] = {}
        self.waiting: list[Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self.writes or self.waiting)

    def add(self, write: Write | None, done: Future[None] | None) -> None:
        if write is not None:
            self.writes.pop(write.key, None)
            self.writes[write.key] = write.statements
        if done is not None and done.set_running_or_notify_cancel():
            self.waiting.append(done)

    def finish(self, error: Exception | None) -> None:
        """Answer the callers that wait, and empty the batch."""
        for done in self.waiting:
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
        self.writes, self.waiting = {}, []


class StateWriter:
    """`put` never blocks. Commits that a caller waits for are synced to disk; the others survive a
    kill of the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[tuple[Write | None, Future[None] | None] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="local-state", daemon=True)
        self._closed = False
        self.has_room = True
        """False after a commit that failed, until one succeeds."""

    def start(self) -> None:
        self._thread.start()

    def put(self, write: Write | None, durable: bool = False) -> Future[None] | None:
        """With `durable`, a future that is done when this and all before is on disk."""
        if self._closed:
            raise UnavailableError("cannot write the agent's state: the agent is stopping")
        done: Future[None] | None = Future() if durable else None
        self._queue.put((write, done))
        return done

    def close(self) -> None:
        """Write what is queued, and stop."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    # -- on the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        batch, is_last = _Batch(), False
        while not is_last:
            is_last = self._fill(batch)
            try:
                if connection is None:
                    connection = connect(self._path)
                if batch:
                    _commit(connection, batch)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
                if code in _TEMPORARY:
                    self._note_failure(error)
                else:
                    _log.error("cannot write the agent's state", error=str(error))
                    batch.finish(UnavailableError(f"cannot write the agent's state: {error}"))
            else:
                if not self.has_room:
                    self.has_room = True
                    _log.info("the agent's state can be written again", path=str(self._path))
                batch.finish(None)
        if batch:
            _log.error("the agent stops with facts that are not stored", facts=len(batch.writes))
            batch.finish(UnavailableError("cannot write the agent's state: the agent is stopping"))
        if connection is not None:
            connection.close()

    def _fill(self, batch: _Batch) -> bool:
        """Wait for something to write (for a while only, where a write is to be tried again), and
        take all there is. Returns True when the writer is to stop."""
        try:
            item = self._queue.get(timeout=_RETRY_S if batch else None)
            while item is not None:
                batch.add(*item)
                item = self._queue.get_nowait()
        except queue.Empty:
            return False
        return True

    def _note_failure(self, error: sqlite3.Error) -> None:
        if self.has_room:
            self.has_room = False
            _log.error(
                "cannot write the agent's state; trying again until it can be written",
                path=str(self._path),
                error=str(error),
                remedy="free room on the disk; no task is started until then",
            )


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _commit(connection: sqlite3.Connection, batch: _Batch) -> None:
    connection.execute(f"PRAGMA synchronous = {'FULL' if batch.waiting else 'NORMAL'}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statements in batch.writes.values():
            statements(connection)
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
