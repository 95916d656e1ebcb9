"""The transaction in which log entries are applied, with one attribute per table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from orchgit.model.author import Author
from orchgit.state.changes import Changes
from orchgit.state.entry import EntryContext
from orchgit.state.job_status_updates import JobStatusUpdates
from orchgit.state.tables.acl_auth_methods import AclAuthMethodWrites
from orchgit.state.tables.acl_binding_rules import AclBindingRuleWrites
from orchgit.state.tables.acl_bootstrap import AclBootstrapWrites
from orchgit.state.tables.acl_one_time_tokens import OneTimeTokenWrites
from orchgit.state.tables.acl_policies import AclPolicyWrites
from orchgit.state.tables.acl_roles import AclRoleWrites
from orchgit.state.tables.acl_tokens import AclTokenWrites
from orchgit.state.tables.allocations import AllocationWrites
from orchgit.state.tables.applied_jobs import AppliedJobWrites
from orchgit.state.tables.authored_changes import AuthoredChangeWrites
from orchgit.state.tables.autopilot_config import AutopilotConfigWrites
from orchgit.state.tables.csi_volumes import CsiVolumeWrites
from orchgit.state.tables.deployments import DeploymentWrites
from orchgit.state.tables.drifted_jobs import DriftedJobWrites
from orchgit.state.tables.evaluations import EvaluationWrites
from orchgit.state.tables.git_refs import GitRefWrites
from orchgit.state.tables.held_versions import HeldVersionWrites
from orchgit.state.tables.host_volumes import HostVolumeWrites
from orchgit.state.tables.job_submissions import JobSubmissionWrites
from orchgit.state.tables.job_summaries import JobSummaryWrites
from orchgit.state.tables.job_versions import JobVersionWrites
from orchgit.state.tables.jobs import JobWrites
from orchgit.state.tables.meta import MetaWrites
from orchgit.state.tables.namespace_usage import NamespaceUsageReads
from orchgit.state.tables.namespaces import NamespaceWrites
from orchgit.state.tables.node_pools import NodePoolWrites
from orchgit.state.tables.nodes import NodeWrites
from orchgit.state.tables.periodic_launches import PeriodicLaunchWrites
from orchgit.state.tables.quotas import QuotaWrites
from orchgit.state.tables.restore_chunks import RestoreChunks
from orchgit.state.tables.rollouts import RolloutWrites
from orchgit.state.tables.root_keys import RootKeyWrites
from orchgit.state.tables.scaling_events import ScalingEventWrites
from orchgit.state.tables.scheduler_config import SchedulerConfigWrites
from orchgit.state.tables.servers import ServerWrites
from orchgit.state.tables.source_health import SourceHealthWrites
from orchgit.state.tables.source_jobs import SourceJobReads
from orchgit.state.tables.sources import SourceWrites
from orchgit.state.tables.table_indexes import TableIndexWrites
from orchgit.state.tables.variables import VariableWrites
from orchgit.state.tables.volume_claims import VolumeClaimWrites
from orchgit.state.writer_cache import WriterCache

NO_INDEX = -1


class MustStartOver(Exception):
    """An entry was refused after it had written, and no savepoint was made for it: roll the whole
    transaction back, and begin it again with savepoints."""


class WriteTxn:
    """One SQLite transaction for many entries; each is whole or leaves nothing behind.

    A writer has one object for all its transactions: `begin` opens the next, `commit` or `rollback`
    ends it. Between `begin_entry` and `end_entry` (or `undo_entry`) the entry's handler reads and
    writes. Nothing here asks the clock or makes up an id (invariant 2).

    Without savepoints an entry costs two statements less, a third of what a small one takes:
    nearly all that are refused are refused before they write. For the others see `MustStartOver`.
    """

    def __init__(self, connection: sqlite3.Connection, cache: WriterCache) -> None:
        self.connection = connection
        self._cache = cache
        self._entry = entry = EntryContext(connection, cache)
        self._savepoints = True
        self._writes_before_entry = 0
        self._committed = Changes()
        self._attached: list[str] = []
        self._author: Author | None = None
        self.offset = 0
        """Index of the state minus index of the log; a restored snapshot moves it."""
        self.visible_index = NO_INDEX
        """The newest index that readers may see: set before each commit."""
        self.acl_auth_methods = AclAuthMethodWrites(entry)
        self.acl_binding_rules = AclBindingRuleWrites(entry)
        self.acl_bootstrap = AclBootstrapWrites(entry)
        self.acl_one_time_tokens = OneTimeTokenWrites(entry)
        self.acl_policies = AclPolicyWrites(entry)
        self.acl_roles = AclRoleWrites(entry)
        self.acl_tokens = AclTokenWrites(entry)
        self.applied_jobs = AppliedJobWrites(entry)
        self.authored_changes = AuthoredChangeWrites(entry)
        self.autopilot_config = AutopilotConfigWrites(entry)
        self.deployments = DeploymentWrites(entry)
        self.drifted_jobs = DriftedJobWrites(entry)
        self.git_refs = GitRefWrites(entry)
        self.held_versions = HeldVersionWrites(entry)
        self.host_volumes = HostVolumeWrites(entry)
        self.csi_volumes = CsiVolumeWrites(entry)
        self.job_submissions = JobSubmissionWrites(connection)
        self.job_versions = JobVersionWrites(entry)
        self.meta = MetaWrites(connection)
        self.namespace_usage = NamespaceUsageReads(entry.connection)
        self.namespaces = NamespaceWrites(entry)
        self.node_pools = NodePoolWrites(entry)
        self.nodes = NodeWrites(entry)
        self.periodic_launches = PeriodicLaunchWrites(entry)
        self.restore_chunks = RestoreChunks(connection)
        self.quotas = QuotaWrites(entry)
        self.rollouts = RolloutWrites(entry)
        self.root_keys = RootKeyWrites(entry)
        self.scaling_events = ScalingEventWrites(entry)
        self.scheduler_config = SchedulerConfigWrites(entry)
        self.servers = ServerWrites(entry)
        self.source_jobs = SourceJobReads(connection)
        self.source_health = SourceHealthWrites(entry)
        self.sources = SourceWrites(entry)
        self.table_indexes = TableIndexWrites(connection)
        self.variables = VariableWrites(entry)
        self.volume_claims = VolumeClaimWrites(entry)
        self.evaluations = EvaluationWrites(entry)
        self.job_summaries = JobSummaryWrites(entry)
        self.allocations = AllocationWrites(entry, self.job_summaries)
        self.jobs = JobWrites(
            entry,
            self.job_versions,
            self.job_submissions,
            self.job_summaries,
            self.periodic_launches,
        )
        self.job_statuses = JobStatusUpdates(entry, self.jobs, self.evaluations)

    def begin(self, savepoints: bool = True) -> Self:
        self._savepoints = savepoints
        self._committed = Changes()
        self.connection.execute("BEGIN IMMEDIATE")
        if self._cache.index_offset is None:
            self._cache.index_offset = self.meta.index_offset()
        self.offset = self._cache.index_offset
        return self

    @property
    def index(self) -> int:
        """The index of the state at which the entry being applied lies."""
        return self._entry.index

    @property
    def now_ns(self) -> int:
        """The time of the proposer of the entry being applied."""
        return self._entry.now_ns

    @property
    def author(self) -> Author | None:
        """Whose token the entry being applied bore."""
        return self._author

    def changed_by_entry(self) -> list[tuple[str, list[str]]]:
        """Returns (table, keys) of what the entry being applied has changed so far."""
        return [(table, list(keys)) for table, keys in self._entry.changes]

    def begin_entry(self, index: int, now_ns: int, author: Author | None = None) -> None:
        self._author = author
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
        self.visible_index = applied_index
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
