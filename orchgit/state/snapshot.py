"""Reads of the whole state, with one attribute per table, and the snapshot: reads at one index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import Self

from orchgit.state.tables.allocations import AllocationReads
from orchgit.state.tables.applied_jobs import AppliedJobReads
from orchgit.state.tables.autopilot_config import AutopilotConfigReads
from orchgit.state.tables.deployments import DeploymentReads
from orchgit.state.tables.evaluations import EvaluationReads
from orchgit.state.tables.git_refs import GitRefReads
from orchgit.state.tables.host_volumes import HostVolumeReads
from orchgit.state.tables.job_submissions import JobSubmissionReads
from orchgit.state.tables.job_summaries import JobSummaryReads
from orchgit.state.tables.job_versions import JobVersionReads
from orchgit.state.tables.jobs import JobReads
from orchgit.state.tables.meta import MetaReads
from orchgit.state.tables.namespaces import NamespaceReads
from orchgit.state.tables.node_pools import NodePoolReads
from orchgit.state.tables.nodes import NodeReads
from orchgit.state.tables.periodic_launches import PeriodicLaunchReads
from orchgit.state.tables.rollouts import RolloutReads
from orchgit.state.tables.root_keys import RootKeyReads
from orchgit.state.tables.scheduler_config import SchedulerConfigReads
from orchgit.state.tables.servers import ServerReads
from orchgit.state.tables.sources import SourceReads
from orchgit.state.tables.table_indexes import TableIndexReads
from orchgit.state.tables.variables import VariableReads
from orchgit.state.tables.volume_claims import VolumeClaimReads


class StateReads:
    """The tables of one connection, for reading. A table's object is made when it is first used:
    most requests use one or two."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    allocations = cached_property(lambda self: AllocationReads(self.connection))
    applied_jobs = cached_property(lambda self: AppliedJobReads(self.connection))
    autopilot_config = cached_property(lambda self: AutopilotConfigReads(self.connection))
    deployments = cached_property(lambda self: DeploymentReads(self.connection))
    evaluations = cached_property(lambda self: EvaluationReads(self.connection))
    git_refs = cached_property(lambda self: GitRefReads(self.connection))
    host_volumes = cached_property(lambda self: HostVolumeReads(self.connection))
    job_submissions = cached_property(lambda self: JobSubmissionReads(self.connection))
    job_summaries = cached_property(lambda self: JobSummaryReads(self.connection))
    job_versions = cached_property(lambda self: JobVersionReads(self.connection))
    jobs = cached_property(lambda self: JobReads(self.connection))
    meta = cached_property(lambda self: MetaReads(self.connection))
    namespaces = cached_property(lambda self: NamespaceReads(self.connection))
    node_pools = cached_property(lambda self: NodePoolReads(self.connection))
    nodes = cached_property(lambda self: NodeReads(self.connection))
    periodic_launches = cached_property(lambda self: PeriodicLaunchReads(self.connection))
    rollouts = cached_property(lambda self: RolloutReads(self.connection))
    root_keys = cached_property(lambda self: RootKeyReads(self.connection))
    scheduler_config = cached_property(lambda self: SchedulerConfigReads(self.connection))
    servers = cached_property(lambda self: ServerReads(self.connection))
    sources = cached_property(lambda self: SourceReads(self.connection))
    table_indexes = cached_property(lambda self: TableIndexReads(self.connection))
    variables = cached_property(lambda self: VariableReads(self.connection))
    volume_claims = cached_property(lambda self: VolumeClaimReads(self.connection))


class Snapshot(StateReads):
    """A SQLite read transaction: until it is closed, every read sees the state at `index`.

    A context manager. Treat the structs that it returns as immutable.
    """

    def __init__(
        self, connection: sqlite3.Connection, release: Callable[[sqlite3.Connection], None]
    ) -> None:
        super().__init__(connection)
        self._release = release
        self._open = True
        connection.execute("BEGIN")
        self.index = self.meta.applied_index()

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
