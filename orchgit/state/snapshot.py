"""Reads of the whole state, with one attribute per table, and the snapshot: reads at one index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from types import TracebackType
from typing import Self

from orchgit.state.tables.acl_auth_methods import AclAuthMethodReads
from orchgit.state.tables.acl_binding_rules import AclBindingRuleReads
from orchgit.state.tables.acl_bootstrap import AclBootstrapReads
from orchgit.state.tables.acl_one_time_tokens import OneTimeTokenReads
from orchgit.state.tables.acl_policies import AclPolicyReads
from orchgit.state.tables.acl_roles import AclRoleReads
from orchgit.state.tables.acl_tokens import AclTokenReads
from orchgit.state.tables.allocations import AllocationReads
from orchgit.state.tables.applied_jobs import AppliedJobReads
from orchgit.state.tables.authored_changes import AuthoredChangeReads
from orchgit.state.tables.autopilot_config import AutopilotConfigReads
from orchgit.state.tables.csi_volumes import CsiVolumeReads
from orchgit.state.tables.deployments import DeploymentReads
from orchgit.state.tables.drifted_jobs import DriftedJobReads
from orchgit.state.tables.evaluations import EvaluationReads
from orchgit.state.tables.git_refs import GitRefReads
from orchgit.state.tables.held_versions import HeldVersionReads
from orchgit.state.tables.host_volumes import HostVolumeReads
from orchgit.state.tables.job_submissions import JobSubmissionReads
from orchgit.state.tables.job_summaries import JobSummaryReads
from orchgit.state.tables.job_versions import JobVersionReads
from orchgit.state.tables.jobs import JobReads
from orchgit.state.tables.meta import MetaReads
from orchgit.state.tables.namespace_usage import NamespaceUsageReads
from orchgit.state.tables.namespaces import NamespaceReads
from orchgit.state.tables.node_pools import NodePoolReads
from orchgit.state.tables.nodes import NodeReads
from orchgit.state.tables.periodic_launches import PeriodicLaunchReads
from orchgit.state.tables.quotas import QuotaReads
from orchgit.state.tables.rollouts import RolloutReads
from orchgit.state.tables.root_keys import RootKeyReads
from orchgit.state.tables.scaling_events import ScalingEventReads
from orchgit.state.tables.scheduler_config import SchedulerConfigReads
from orchgit.state.tables.servers import ServerReads
from orchgit.state.tables.source_health import SourceHealthReads
from orchgit.state.tables.source_jobs import SourceJobReads
from orchgit.state.tables.sources import SourceReads
from orchgit.state.tables.table_indexes import TableIndexReads
from orchgit.state.tables.variables import VariableReads
from orchgit.state.tables.volume_claims import VolumeClaimReads


class StateReads:
    """The tables of one connection, for reading."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.acl_auth_methods = AclAuthMethodReads(connection)
        self.acl_binding_rules = AclBindingRuleReads(connection)
        self.acl_bootstrap = AclBootstrapReads(connection)
        self.acl_one_time_tokens = OneTimeTokenReads(connection)
        self.acl_policies = AclPolicyReads(connection)
        self.acl_roles = AclRoleReads(connection)
        self.acl_tokens = AclTokenReads(connection)
        self.allocations = AllocationReads(connection)
        self.applied_jobs = AppliedJobReads(connection)
        self.authored_changes = AuthoredChangeReads(connection)
        self.autopilot_config = AutopilotConfigReads(connection)
        self.deployments = DeploymentReads(connection)
        self.drifted_jobs = DriftedJobReads(connection)
        self.evaluations = EvaluationReads(connection)
        self.git_refs = GitRefReads(connection)
        self.held_versions = HeldVersionReads(connection)
        self.host_volumes = HostVolumeReads(connection)
        self.csi_volumes = CsiVolumeReads(connection)
        self.job_submissions = JobSubmissionReads(connection)
        self.job_summaries = JobSummaryReads(connection)
        self.job_versions = JobVersionReads(connection)
        self.jobs = JobReads(connection)
        self.meta = MetaReads(connection)
        self.namespace_usage = NamespaceUsageReads(connection)
        self.namespaces = NamespaceReads(connection)
        self.node_pools = NodePoolReads(connection)
        self.nodes = NodeReads(connection)
        self.periodic_launches = PeriodicLaunchReads(connection)
        self.quotas = QuotaReads(connection)
        self.rollouts = RolloutReads(connection)
        self.root_keys = RootKeyReads(connection)
        self.scaling_events = ScalingEventReads(connection)
        self.scheduler_config = SchedulerConfigReads(connection)
        self.servers = ServerReads(connection)
        self.source_health = SourceHealthReads(connection)
        self.source_jobs = SourceJobReads(connection)
        self.sources = SourceReads(connection)
        self.table_indexes = TableIndexReads(connection)
        self.variables = VariableReads(connection)
        self.volume_claims = VolumeClaimReads(connection)


class Snapshot(StateReads):
    """A SQLite read transaction: until it is closed, every read sees the state at `index`.

    A context manager. Treat the structs that it returns as immutable.
    """

    def __init__(self, reads: StateReads, release: Callable[[StateReads], None]) -> None:
        # The tables belong to the connection, which serves one snapshot after the other.
        vars(self).update(vars(reads))
        self._reads = reads
        self._release = release
        self._open = True
        self.connection.execute("BEGIN")
        self.index = self.meta.applied_index()

    def close(self) -> None:
        if self._open:
            self._open = False
            self.connection.execute("ROLLBACK")
            self._release(self._reads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
