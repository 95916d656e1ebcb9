"""What the agent must not forget: one SQLite file, written before the effects it is about.

A single writer thread drains a queue and commits everything in it together, so that a thousand
allocations that arrive at once cost a few fsyncs. `write(..)` returns a future: wait for it where
the effect may only follow the fact (a task's start); leave it alone where the order is enough.
Commits that somebody waits for are fsynced; the others survive a kill of the agent, and what a
power cut takes of them is found again from the supervisor and the servers.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from agent.drivers.base import TaskHandle
from orchgit.errors import UnavailableError
from orchgit.model.allocation import Allocation, TaskState
from orchgit.model.job import Job
from orchgit.model.volume import HostVolume

_log = structlog.get_logger(component="agent")

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (key TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE allocs (
    id TEXT PRIMARY KEY, job_key TEXT NOT NULL, alloc BLOB NOT NULL, local BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX allocs_by_job ON allocs (job_key);
CREATE TABLE tasks (
    alloc_id TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (alloc_id, name)
) WITHOUT ROWID;
CREATE TABLE volumes (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
"""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One task as it was last known. `attempt` counts starts; it is stored before each of them."""

    state: TaskState = msgspec.field(default_factory=TaskState)
    attempt: int = 0
    starting: bool = False
    """The attempt's start was decided; whether it happened only the driver knows."""
    handle: TaskHandle | None = None
    restart_count: int = 0
    restart_window_ns: int = 0
    next_start_ns: int = 0
    """While a restart's delay runs: when it ends."""


class AllocRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's own facts about an allocation, beside what the servers said."""

    received_ns: int = 0
    health_from_ns: int = 0
    """When the judged deployment began here; 0: when the allocation was received."""
    healthy: bool | None = None
    healthy_at_ns: int = 0
    killed: str = ""
    """Why the agent itself ended it (it lost the servers for too long); empty: it did not."""
    finished: bool = False
    """All tasks and hooks are done; only the files are left."""
    finished_ns: int = 0
    files_removed: bool = False


@dataclass(frozen=True, slots=True)
class StoredAlloc:
    alloc: Allocation
    job: Job
    local: AllocRecord
    tasks: dict[str, TaskRecord]


_Write = Callable[[sqlite3.Connection], None]


class LocalState:
    """Open, read once with `allocations()`, then only write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[tuple[_Write, Future[None], bool] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._drain, name="local-state", daemon=True)
        self._closed = False
        path.parent.mkdir(parents=True, exist_ok=True)
        with _connect(path) as connection:
            _migrate(connection)
        connection.close()
        path.chmod(0o600)
        self._thread.start()

    # -- reading, before the loops begin -----------------------------------------------------------

    def facts(self) -> dict[str, str]:
        return {name: value for name, value in self._rows("SELECT name, value FROM facts")}

    def allocations(self) -> list[StoredAlloc]:
        jobs = {key: _JOB.decode(body) for key, body in self._rows("SELECT key, body FROM jobs")}
        tasks: dict[str, dict[str, TaskRecord]] = {}
        for alloc_id, name, body in self._rows("SELECT alloc_id, name, body FROM tasks"):
            tasks.setdefault(alloc_id, {})[name] = _TASK.decode(body)
        return [
            StoredAlloc(
                _ALLOC.decode(alloc), jobs[job_key], _LOCAL.decode(local), tasks.get(id_, {})
            )
            for id_, job_key, alloc, local in self._rows(
                "SELECT id, job_key, alloc, local FROM allocs ORDER BY id"
            )
        ]

    def volumes(self) -> list[HostVolume]:
        return [_VOLUME.decode(body) for (body,) in self._rows("SELECT body FROM volumes")]

    def _rows(self, sql: str) -> list[Any]:
        connection = _connect(self._path)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    # -- writing -----------------------------------------------------------------------------------

    def put_facts(self, facts: dict[str, str]) -> None:
        rows = list(facts.items())
        self._later(lambda db: _many(db, "INSERT OR REPLACE INTO facts VALUES (?, ?)", rows))

    def put_allocation(self, alloc: Allocation, job: Job, local: AllocRecord) -> None:
        self._later(_put_alloc(alloc, job, local))

    async def start_task(self, alloc_id: str, name: str, record: TaskRecord) -> None:
        """Store that an attempt begins; returns once it is on disk: only then may it begin."""
        await self._durable(_put_task(alloc_id, name, record))

    def put_task(self, alloc_id: str, name: str, record: TaskRecord) -> None:
        self._later(_put_task(alloc_id, name, record))

    def remove_allocation(self, alloc_id: str) -> None:
        self._later(lambda db: _remove_alloc(db, alloc_id))

    async def put_volume(self, volume: HostVolume) -> None:
        row = (volume.id, msgspec.msgpack.encode(volume))
        await self._durable(
            lambda db: _many(db, "INSERT OR REPLACE INTO volumes VALUES (?, ?)", [row])
        )

    def remove_volume(self, volume_id: str) -> None:
        self._later(lambda db: _many(db, "DELETE FROM volumes WHERE id = ?", [(volume_id,)]))

    async def flush(self) -> None:
        """Returns when everything written before is on disk."""
        await self._durable(lambda _db: None)

    def close(self) -> None:
        """Write what is queued, and stop the writer."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    async def _durable(self, write: _Write) -> None:
        await asyncio.wrap_future(self._put(write, durable=True))

    def _later(self, write: _Write) -> None:
        self._put(write, durable=False)

    def _put(self, write: _Write, durable: bool) -> Future[None]:
        if self._closed:
            raise UnavailableError("cannot write the agent's state: the agent is stopping")
        done: Future[None] = Future()
        self._queue.put((write, done, durable))
        return done

    # -- the writer thread -------------------------------------------------------------------------

    def _drain(self) -> None:
        connection = _connect(self._path)
        while True:
            batch, last = self._next_batch()
            if batch:
                _commit(connection, batch)
            if last:
                connection.close()
                return

    def _next_batch(self) -> tuple[list[tuple[_Write, Future[None], bool]], bool]:
        item = self._queue.get()
        batch = []
        while item is not None:
            batch.append(item)
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True


_ALLOC = msgspec.msgpack.Decoder(Allocation)
_JOB = msgspec.msgpack.Decoder(Job)
_TASK = msgspec.msgpack.Decoder(TaskRecord)
_LOCAL = msgspec.msgpack.Decoder(AllocRecord)
_VOLUME = msgspec.msgpack.Decoder(HostVolume)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _SCHEMA_VERSION:
        return
    if version != 0:
        raise UnavailableError(
            f"cannot use the agent's state of format {version}: this program knows "
            f"{_SCHEMA_VERSION}; start the version of orchgit that wrote it"
        )
    connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")


def _commit(connection: sqlite3.Connection, batch: list[tuple[_Write, Future[None], bool]]) -> None:
    durable = any(wanted for _, _, wanted in batch)
    waiting = [done for _, done, _ in batch if done.set_running_or_notify_cancel()]
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        for write, _, _ in batch:
            write(connection)
        connection.execute("COMMIT")
    except sqlite3.Error as problem:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        error = UnavailableError(f"cannot write the agent's state: {problem}")
        _log.error("cannot write the agent's state", error=str(problem))
        for done in waiting:
            done.set_exception(error)
        return
    for done in waiting:
        done.set_result(None)


def _many(connection: sqlite3.Connection, sql: str, rows: list[Any]) -> None:
    connection.executemany(sql, rows)


def _job_key(job: Job) -> str:
    """Names one content of a job: a purged and re-registered job begins again at version 0."""
    return f"{job.namespace}\x1f{job.id}\x1f{job.version}\x1f{job.create_index}"


def _put_alloc(alloc: Allocation, job: Job, local: AllocRecord) -> _Write:
    key = _job_key(job)
    job_body = msgspec.msgpack.encode(job)
    row = (alloc.id, key, msgspec.msgpack.encode(alloc), msgspec.msgpack.encode(local))

    def write(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?)", (key, job_body))
        connection.execute("INSERT OR REPLACE INTO allocs VALUES (?, ?, ?, ?)", row)

    return write


def _put_task(alloc_id: str, name: str, record: TaskRecord) -> _Write:
    row = (alloc_id, name, msgspec.msgpack.encode(record))
    return lambda db: _many(db, "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", [row])


def _remove_alloc(connection: sqlite3.Connection, alloc_id: str) -> None:
    connection.execute("DELETE FROM tasks WHERE alloc_id = ?", (alloc_id,))
    connection.execute("DELETE FROM allocs WHERE id = ?", (alloc_id,))
    connection.execute(
        "DELETE FROM jobs WHERE NOT EXISTS (SELECT 1 FROM allocs WHERE job_key = jobs.key)"
    )
