"""The transaction in which log entries are applied: every read and write, and what changed."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from orchgit.state.changes import Changes
from orchgit.state.snapshot import StateReads
from orchgit.state.tables.allocations import AllocationWrites
from orchgit.state.tables.deployments import DeploymentWrites
from orchgit.state.tables.evaluations import EvaluationWrites
from orchgit.state.tables.gitops import GitopsWrites
from orchgit.state.tables.job_summaries import GroupKey
from orchgit.state.tables.jobs import JobWrites
from orchgit.state.tables.nodes import NodeWrites
from orchgit.state.tables.servers import ServerWrites
from orchgit.state.tables.variables import VariableWrites
from orchgit.state.tables.volumes import VolumeWrites
from orchgit.state.writer_cache import Remembered


class MustStartOver(Exception):
    """An entry was refused after it had written, and no savepoint was made for it: roll the whole
    transaction back, and begin it again with savepoints."""


class WriteTxn(
    JobWrites,
    EvaluationWrites,
    AllocationWrites,
    NodeWrites,
    DeploymentWrites,
    VolumeWrites,
    GitopsWrites,
    VariableWrites,
    ServerWrites,
    StateReads,
):
    """One SQLite transaction for many entries; each is whole or leaves nothing behind.

    Between `begin_entry` and `end_entry` (or `undo_entry`) the entry's handler reads and writes.
    Nothing here asks the clock or makes up an id (invariant 2).

    Without `savepoints` an entry costs two statements less, a third of what a small one takes:
    nearly all that are refused are refused before they write. For the others see `MustStartOver`.
    """

    def __init__(
        self, connection: sqlite3.Connection, remembered: Remembered, savepoints: bool = True
    ) -> None:
        self.connection = connection
        self.remembered = remembered
        self._savepoints = savepoints
        self._writes_before = 0
        self.index = 0
        self.now_ns = 0
        self.noted = []
        self.counted: defaultdict[GroupKey, defaultdict[str, int]]
        self.counted = defaultdict(lambda: defaultdict(int))
        self.queued = {}
        self.opened = defaultdict(set)
        self._committed = Changes()
        self._touched: dict[tuple[str, str], bool] = {}
        self._attached: list[str] = []
        connection.execute("BEGIN IMMEDIATE")
        self.offset = self._known_offset()
        """Index of the state minus index of the log; a restored snapshot moves it."""

    def _known_offset(self) -> int:
        if self.remembered.offset is None:
            self.remembered.offset = self.index_offset()
        return self.remembered.offset

    def begin_entry(self, index: int, now_ns: int) -> None:
        self.index, self.now_ns = index, now_ns
        self.noted.clear()
        self.counted.clear()
        self.queued.clear()
        self.opened.clear()
        self._touched.clear()
        self._writes_before = self.connection.total_changes
        if self._savepoints:
            self.connection.execute("SAVEPOINT entry")

    def touch_job(self, namespace: str, job_id: str, purged_evals: bool = False) -> None:
        """The job's status is derived anew when the entry ends."""
        key = (namespace, job_id)
        self._touched[key] = self._touched.get(key, False) or purged_evals

    def end_entry(self) -> None:
        """Settle what is derived from the entry's changes, and keep it."""
        for namespace, job_id, _ in self.counted:
            self.touch_job(namespace, job_id)
        self.flush_summaries()
        for (namespace, job_id), purged in self._touched.items():
            self._settle_job_status(namespace, job_id, purged)
        if self._savepoints:
            self.connection.execute("RELEASE entry")
        for table, keys in self.noted:
            self._committed.note(self.index, table, keys)

    def _settle_job_status(self, namespace: str, job_id: str, purged_evals: bool) -> None:
        waits = bool(self.opened.get((namespace, job_id)))
        statuses = self.settled_statuses(namespace, job_id, waits, purged_evals)
        if statuses is not None and statuses[0] != statuses[1]:
            self.set_job_status(namespace, job_id, statuses[1])

    def undo_entry(self) -> None:
        """Leave nothing of the entry; MustStartOver where that cannot be had."""
        if not self._savepoints:
            if self.connection.total_changes != self._writes_before:
                raise MustStartOver
            return
        self.remembered.forget()
        self.connection.execute("ROLLBACK TO entry")
        self.connection.execute("RELEASE entry")
        self.offset = self.index_offset()

    def attach(self, path: Path) -> str:
        """The name under which another database can be read until the transaction ends."""
        name = f"attached_{len(self._attached)}"
        self.connection.execute(f"ATTACH DATABASE ? AS {name}", (str(path),))
        self._attached.append(name)
        return name

    def move_index(self, index: int) -> None:
        """The entry being applied, and with it the state, is at a later index than the log's."""
        self.offset += index - self.index
        self.remembered.offset = self.offset
        self.index = index
        self.set_meta("index_offset", self.offset)

    def note_replaced(self, tables: Iterable[str]) -> None:
        """Anything in these tables may be another now."""
        self.remembered.forget()
        for table in tables:
            self.noted.append((table, ()))

    def set_meta(self, key: str, value: str | int | bytes) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def commit(self, applied_index: int) -> Changes:
        """End the transaction, the applied index in it; returns what its entries changed."""
        self.set_meta("applied_index", applied_index)
        self._put_table_indexes(self._committed.table_indexes().items())
        self.connection.execute("COMMIT")
        self._detach()
        return self._committed

    def _put_table_indexes(self, indexes: Iterable[tuple[str, int]]) -> None:
        self.connection.executemany("INSERT OR REPLACE INTO table_indexes VALUES (?, ?)", indexes)

    def rollback(self) -> None:
        """Give the whole transaction up."""
        self.remembered.forget()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self._detach()

    def _detach(self) -> None:
        for name in self._attached:
            self.connection.execute(f"DETACH DATABASE {name}")
        self._attached.clear()
