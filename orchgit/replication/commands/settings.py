"""What an operator sets for the whole cluster: configuration, namespaces, node pools, quotas."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.node import Namespace, NodePool
from orchgit.model.operator import AutopilotConfig, SchedulerConfig
from orchgit.model.quota import QuotaSpec
from orchgit.replication.commands.entry import Entry


class SetClusterId(Entry, tag="set-cluster-id", kw_only=True):
    """Proposed by the first leader; a cluster that has an id keeps it."""

    cluster_id: str


class SetSchedulerConfig(Entry, tag="set-scheduler-config", kw_only=True):
    config: SchedulerConfig
    expected_modify_index: int | None = None


class SetAutopilotConfig(Entry, tag="set-autopilot-config", kw_only=True):
    since: ClassVar[int] = 2

    config: AutopilotConfig
    expected_modify_index: int | None = None


class UpsertNodePools(Entry, tag="upsert-node-pools", kw_only=True):
    pools: list[NodePool]


class DeleteNodePools(Entry, tag="delete-node-pools", kw_only=True):
    names: list[str]


class UpsertNamespaces(Entry, tag="upsert-namespaces", kw_only=True):
    namespaces: list[Namespace]


class DeleteNamespaces(Entry, tag="delete-namespaces", kw_only=True):
    names: list[str]


class PutQuotas(Entry, tag="put-quotas", kw_only=True):
    since: ClassVar[int] = 5

    quotas: list[QuotaSpec]


class DeleteQuotas(Entry, tag="delete-quotas", kw_only=True):
    """Fails if there is no such quota, or a namespace names it."""

    since: ClassVar[int] = 5

    names: list[str]


SettingsCommand = (
    SetClusterId
    | SetSchedulerConfig
    | SetAutopilotConfig
    | UpsertNodePools
    | DeleteNodePools
    | UpsertNamespaces
    | DeleteNamespaces
    | PutQuotas
    | DeleteQuotas
)
