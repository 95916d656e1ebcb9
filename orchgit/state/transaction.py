"""The transaction in which log entries are applied, with one attribute per table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from orchgit.state.changes import Changes
from orchgit.state.entry import Entry
from orchgit.state.job_status_updates import JobStatusUpdates
from orchgit.state.tables.allocations import AllocationWrites
from orchgit.state.tables.applied_jobs import AppliedJobWrites
from orchgit.state.tables.autopilot_config import AutopilotConfigWrites
from orchgit.state.tables.deployments import DeploymentWrites
from orchgit.state.tables.evaluations import EvaluationWrites
from orchgit.state.tables.git_refs import GitRefWrites
from orchgit.state.tables.host_volumes import HostVolumeWrites
from orchgit.state.tables.job_submissions import JobSubmissionWrites
from orchgit.state.tables.job_summaries import JobSummaryWrites
from orchgit.state.tables.job_versions import JobVersionWrites
from orchgit.state.tables.jobs import JobWrites
from orchgit.state.tables.meta import MetaWrites
from orchgit.state.tables.namespaces import NamespaceWrites
from orchgit.state.tables.node_pools import NodePoolWrites
from orchgit.state.tables.nodes import NodeWrites
from orchgit.state.tables.periodic_launches import PeriodicLaunchWrites
from orchgit.state.tables.restore_chunks import RestoreChunks
from orchgit.state.tables.rollouts import RolloutWrites
from orchgit.state.tables.root_keys import RootKeyWrites
from orchgit.state.tables.scheduler_config import SchedulerConfigWrites
from orchgit.state.tables.servers import ServerWrites
from orchgit.state.tables.sources import SourceWrites
from orchgit.state.tables.table_indexes import TableIndexWrites
from orchgit.state.tables.variables import VariableWrites
from orchgit.state.tables.volume_claims import VolumeClaimWrites
from orchgit.state.writer_cache import WriterCache


class MustStartOver(Exception):
    """An entry was refused after it had written, and no savepoint was made for it: roll the whole
    transaction back, and begin it again with savepoints."""


class WriteTxn:
    """One SQLite transaction for many entries; each is whole or leaves nothing behind.

    Between `begin_entry` and `end_entry` (or `undo_entry`) the entry's handler reads and writes.
    Nothing here asks the clock or makes up an id (invariant 2).

    Without `savepoints` an entry costs two statements less, a third of what a small one takes:
    nearly all that are refused are refused before they write. For the others see `MustStartOver`.
    """

    def __init__(
        self, connection: sqlite3.Connection, cache: WriterCache, savepoints: bool = True
    ) -> None:
        self.connection = connection
        self._cache = cache
        self._savepoints = savepoints
        self._writes_before_entry = 0
        self._entry = Entry(connection, cache)
        self._committed = Changes()
        self._attached: list[str] = []
        connection.execute("BEGIN IMMEDIATE")
        if cache.index_offset is None:
            cache.index_offset = self.meta.index_offset()
        self.offset = cache.index_offset
        """Index of the state minus index of the log; a restored snapshot moves it."""
        # Those that hold something between the statements of an entry.
        self.job_summaries = JobSummaryWrites(self._entry)
        self.evaluations = EvaluationWrites(self._entry)
        self.job_statuses = JobStatusUpdates(self._entry, self.jobs, self.evaluations)

    @cached_property
    def allocations(self) -> AllocationWrites:
        return AllocationWrites(self._entry, self.job_summaries)

    @cached_property
    def jobs(self) -> JobWrites:
        return JobWrites(
            self._entry,
            self.job_versions,
            self.job_submissions,
            self.job_summaries,
            self.periodic_launches,
        )

    # A table's object is made when it is first used.
    applied_jobs = cached_property(lambda self: AppliedJobWrites(self._entry))
    autopilot_config = cached_property(lambda self: AutopilotConfigWrites(self._entry))
    deployments = cached_property(lambda self: DeploymentWrites(self._entry))
    git_refs = cached_property(lambda self: GitRefWrites(self._entry))
    host_volumes = cached_property(lambda self: HostVolumeWrites(self._entry))
    job_submissions = cached_property(lambda self: JobSubmissionWrites(self.connection))
    job_versions = cached_property(lambda self: JobVersionWrites(self._entry))
    meta = cached_property(lambda self: MetaWrites(self.connection))
    namespaces = cached_property(lambda self: NamespaceWrites(self._entry))
    node_pools = cached_property(lambda self: NodePoolWrites(self._entry))
    nodes = cached_property(lambda self: NodeWrites(self._entry))
    periodic_launches = cached_property(lambda self: PeriodicLaunchWrites(self._entry))
    restore_chunks = cached_property(lambda self: RestoreChunks(self.connection))
    rollouts = cached_property(lambda self: RolloutWrites(self._entry))
    root_keys = cached_property(lambda self: RootKeyWrites(self._entry))
    scheduler_config = cached_property(lambda self: SchedulerConfigWrites(self._entry))
    servers = cached_property(lambda self: ServerWrites(self._entry))
    sources = cached_property(lambda self: SourceWrites(self._entry))
    table_indexes = cached_property(lambda self: TableIndexWrites(self.connection))
    variables = cached_property(lambda self: VariableWrites(self._entry))
    volume_claims = cached_property(lambda self: VolumeClaimWrites(self._entry))

    @property
    def index(self) -> int:
        """The index of the state at which the entry being applied lies."""
        return self._entry.index

    @property
    def now_ns(self) -> int:
        """The time of the proposer of the entry being applied."""
        return self._entry.now_ns

    def begin_entry(self, index: int, now_ns: int) -> None:
        self._entry.begin(index, now_ns)
        self.job_summaries.begin_entry()
        self.evaluations.begin_entry()
        self.job_statuses.begin_entry()
        self._writes_before_entry = self.connection.total_changes
        if self._savepoints:
            self.connection.execute("SAVEPOINT entry")

    def end_entry(self) -> None:
        """Write what is derived from the entry's changes, and keep the entry."""
        for namespace, job_id in self.job_summaries.changed_jobs():
            self.job_statuses.touch(namespace, job_id)
        self.job_summaries.flush()
        self.job_statuses.end_entry()
        if self._savepoints:
            self.connection.execute("RELEASE entry")
        for table, keys in self._entry.changes:
            self._committed.note(self.index, table, keys)

    def undo_entry(self) -> None:
        """Leave nothing of the entry; MustStartOver where that cannot be had."""
        if not self._savepoints:
            if self.connection.total_changes != self._writes_before_entry:
                raise MustStartOver
            return
        self._cache.clear()
        self.connection.execute("ROLLBACK TO entry")
        self.connection.execute("RELEASE entry")
        self.offset = self.meta.index_offset()

    def attach(self, path: Path) -> str:
        """Returns the name under which another database can be read until the transaction ends."""
        name = f"attached_{len(self._attached)}"
        self.connection.execute(f"ATTACH DATABASE ? AS {name}", (str(path),))
        self._attached.append(name)
        return name

    def move_index(self, index: int) -> None:
        """Put the entry being applied, and with it the state, at a later index than the log's."""
        self.offset += index - self.index
        self._cache.index_offset = self.offset
        self._entry.index = index
        self.meta.set("index_offset", self.offset)

    def note_replaced(self, tables: Iterable[str]) -> None:
        """Anything in these tables may have changed."""
        self._cache.clear()
        for table in tables:
            self._entry.changed(table, ())

    def commit(self, applied_index: int) -> Changes:
        """End the transaction, the applied index in it; returns what its entries changed."""
        self.meta.set("applied_index", applied_index)
        self.table_indexes.put_all(self._committed.table_indexes())
        self.connection.execute("COMMIT")
        self._detach()
        return self._committed

    def rollback(self) -> None:
        """Give the whole transaction up."""
        self._cache.clear()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self._detach()

    def _detach(self) -> None:
        for name in self._attached:
            self.connection.execute(f"DETACH DATABASE {name}")
        self._attached.clear()
