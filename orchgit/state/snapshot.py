"""A consistent view of the whole state at one index: a SQLite read transaction with every read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from types import TracebackType
from typing import Self

from orchgit.state.tables.allocations import AllocationReads
from orchgit.state.tables.base import Reads
from orchgit.state.tables.deployments import DeploymentReads
from orchgit.state.tables.evaluations import EvaluationReads
from orchgit.state.tables.gitops import GitopsReads
from orchgit.state.tables.job_summaries import SummaryReads
from orchgit.state.tables.jobs import JobReads
from orchgit.state.tables.nodes import NodeReads
from orchgit.state.tables.servers import ServerReads
from orchgit.state.tables.variables import VariableReads
from orchgit.state.tables.volumes import VolumeReads


class MetaReads(Reads):
    def cluster_id(self) -> str | None:
        """None until the first leader has named the cluster."""
        sql = "SELECT value FROM meta WHERE key = 'cluster_id'"
        row = self.connection.execute(sql).fetchone()
        return str(row[0]) if row else None

    def log_id(self) -> str:
        """Which log this state comes from: two clusters never have the same, even where one was
        made from the other's backup. Empty until the first leader has named the cluster."""
        row = self.connection.execute("SELECT value FROM meta WHERE key = 'log_id'").fetchone()
        return str(row[0]) if row else ""

    def applied_index(self) -> int:
        return self._number("SELECT value FROM meta WHERE key = 'applied_index'")

    def index_offset(self) -> int:
        """By how much the state is ahead of the log since a snapshot was restored: its objects
        bring their indexes with them, and none may be newer than the state."""
        return self._number("SELECT value FROM meta WHERE key = 'index_offset'")

    def log_index(self) -> int:
        """The log's entry that was applied last."""
        return self.applied_index() - self.index_offset()

    def restored_index(self) -> int:
        """When the whole state was last replaced by a restored snapshot; 0: never."""
        return self._number("SELECT value FROM meta WHERE key = 'restored_index'")

    def restore_in_progress(self) -> str | None:
        """The id of the snapshot that is being sent in."""
        row = self.connection.execute("SELECT value FROM meta WHERE key = 'restoring'").fetchone()
        return str(row[0]) if row else None

    def table_index(self, *tables: str) -> int:
        """The newest index at which any of these tables changed; at least 1."""
        marks = ", ".join("?" * len(tables))
        sql = f"SELECT max(idx) FROM table_indexes WHERE name IN ({marks})"  # noqa: S608
        return max(1, self._number(sql, tables))


class StateReads(
    JobReads,
    EvaluationReads,
    AllocationReads,
    SummaryReads,
    NodeReads,
    DeploymentReads,
    VolumeReads,
    GitopsReads,
    VariableReads,
    ServerReads,
    MetaReads,
):
    """Every read there is, over one connection."""


class Snapshot(StateReads):
    """A context manager; until it is closed, it sees the state at `index`.

    Structs it returns are the caller's own copies only on the surface: treat them as immutable.
    """

    def __init__(
        self, connection: sqlite3.Connection, release: Callable[[sqlite3.Connection], None]
    ) -> None:
        self.connection = connection
        self._release = release
        self._open = True
        connection.execute("BEGIN")
        self.index = self.applied_index()

    def close(self) -> None:
        if self._open:
            self._open = False
            self.connection.execute("ROLLBACK")
            self._release(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
