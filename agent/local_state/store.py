"""The state that the agent must not lose: one SQLite file, written before the effects.

A single writer thread (`writer`) commits together what comes together, so that a thousand
allocations that arrive at once cost a few fsyncs. Where the effect may only follow the fact (a
task's start) the caller waits until it is on disk; elsewhere the order is enough. What a power cut
takes of the rest comes again from the supervisor and the servers. On a full disk everything waits.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agent.drivers.base import TaskHandle
from agent.local_state.writer import StateWriter, Write, connect
from orchgit.errors import UnavailableError
from orchgit.model.allocation import Allocation, TaskState
from orchgit.model.job import Job
from orchgit.model.volume import HostVolume

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


class HeldToken(msgspec.Struct, frozen=True):
    """A token of one of the task's identities."""

    token: str
    half_over_ns: int | None
    """Unix time at which half of the token's time is over; None for a token without an end."""

    def __repr__(self) -> str:
        """Keeps the token out of tracebacks and logs."""
        return "HeldToken(...)"


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last known state of one task. `attempt` counts starts; it is stored before each start."""

    state: TaskState = msgspec.field(default_factory=TaskState)
    attempt: int = 0
    starting: bool = False
    """The attempt's start was decided; whether it happened only the driver knows."""
    handle: TaskHandle | None = None
    restart_count: int = 0
    restart_window_ns: int = 0
    next_start_ns: int = 0
    """While a restart's delay runs: when it ends."""
    tokens: dict[str, HeldToken] = msgspec.field(default_factory=dict)
    """The current ones by identity: a restarted agent leaves good tokens alone."""


class LocalAllocRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's own facts about an allocation, apart from the servers' copy of it."""

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
    local: LocalAllocRecord
    tasks: dict[str, TaskRecord]


class LocalState:
    """Open, read once with `allocations()`, then only write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = StateWriter(path)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            connection = connect(path)
            try:
                _migrate(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise UnavailableError(
                f"cannot open the agent's state {path}: {error}; if its disk is full, free room"
            ) from None
        path.chmod(0o600)
        self._writer.start()

    # -- reading, before the loops begin -----------------------------------------------------------

    def facts(self) -> dict[str, str]:
        return dict(self._rows("SELECT name, value FROM facts"))

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
        connection = connect(self._path)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    # -- writing -----------------------------------------------------------------------------------

    def put_facts(self, facts: dict[str, str]) -> None:
        sql = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
        for name, value in facts.items():
            self._later(_write(("fact", name), sql, (name, value)))

    def put_allocation(self, alloc: Allocation, job: Job, local: LocalAllocRecord) -> None:
        self._later(_put_alloc(alloc, job, local))

    async def start_task(self, alloc_id: str, name: str, record: TaskRecord) -> None:
        """Store that an attempt begins; returns once it is on disk: only then may it begin."""
        await self._durable(_put_task(alloc_id, name, record))

    def put_task(self, alloc_id: str, name: str, record: TaskRecord) -> None:
        self._later(_put_task(alloc_id, name, record))

    def remove_allocation(self, alloc_id: str) -> None:
        self._later(Write(("removal", alloc_id), lambda db: _remove_alloc(db, alloc_id)))

    async def put_volume(self, volume: HostVolume) -> None:
        row = (volume.id, msgspec.msgpack.encode(volume))
        sql = "INSERT OR REPLACE INTO volumes VALUES (?, ?)"
        await self._durable(_write(("volume", volume.id), sql, row))

    def remove_volume(self, volume_id: str) -> None:
        sql = "DELETE FROM volumes WHERE id = ?"
        self._later(_write(("volume", volume_id), sql, (volume_id,)))

    async def flush(self) -> None:
        """Returns when everything written before is on disk."""
        await self._durable(None)

    async def writable(self) -> None:
        """Returns at once unless the disk is full: then, when there is room again."""
        if not self._writer.has_room:
            await self.flush()

    def close(self) -> None:
        """Write what is queued, and stop the writer."""
        self._writer.close()

    async def _durable(self, write: Write | None) -> None:
        done = self._writer.put(write, durable=True)
        assert done is not None
        await asyncio.wrap_future(done)

    def _later(self, write: Write) -> None:
        self._writer.put(write)


_ALLOC = msgspec.msgpack.Decoder(Allocation)
_JOB = msgspec.msgpack.Decoder(Job)
_TASK = msgspec.msgpack.Decoder(TaskRecord)
_LOCAL = msgspec.msgpack.Decoder(LocalAllocRecord)
_VOLUME = msgspec.msgpack.Decoder(HostVolume)


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


def _write(key: tuple[str, ...], sql: str, row: tuple[object, ...]) -> Write:
    def statements(connection: sqlite3.Connection) -> None:
        connection.execute(sql, row)

    return Write(key, statements)


def _put_alloc(alloc: Allocation, job: Job, local: LocalAllocRecord) -> Write:
    # the create index tells apart a purged job and its successor, which begins at version 0
    key = f"{job.namespace}\x1f{job.id}\x1f{job.version}\x1f{job.create_index}"
    job_body = msgspec.msgpack.encode(job)
    row = (alloc.id, key, msgspec.msgpack.encode(alloc), msgspec.msgpack.encode(local))

    def statements(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?)", (key, job_body))
        connection.execute("INSERT OR REPLACE INTO allocs VALUES (?, ?, ?, ?)", row)

    return Write(("alloc", alloc.id), statements)


def _put_task(alloc_id: str, name: str, record: TaskRecord) -> Write:
    row = (alloc_id, name, msgspec.msgpack.encode(record))
    return _write(("task", alloc_id, name), "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", row)


def _remove_alloc(connection: sqlite3.Connection, alloc_id: str) -> None:
    connection.execute("DELETE FROM tasks WHERE alloc_id = ?", (alloc_id,))
    connection.execute("DELETE FROM allocs WHERE id = ?", (alloc_id,))
    connection.execute(
        "DELETE FROM jobs WHERE NOT EXISTS (SELECT 1 FROM allocs WHERE job_key = jobs.key)"
    )
