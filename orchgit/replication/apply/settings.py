"""Scheduler configuration, node pools, namespaces and their quotas."""

from __future__ import annotations

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.node import Namespace, NodePool
from orchgit.model.operator import AutopilotConfig, SchedulerConfig
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.settings import (
    DeleteNamespaces,
    DeleteNodePools,
    DeleteQuotas,
    PutQuotas,
    SetAutopilotConfig,
    SetClusterId,
    SetSchedulerConfig,
    UpsertNamespaces,
    UpsertNodePools,
)
from orchgit.replication.events import Effects
from orchgit.state.store import ALL_NODES, DEFAULT
from orchgit.state.transaction import WriteTxn


def set_cluster_id(txn: WriteTxn, command: SetClusterId, effects: Effects) -> None:
    """Name the cluster and its log, once. A restored snapshot replaces the cluster's name only."""
    if txn.meta.cluster_id() is None:
        txn.meta.set("cluster_id", command.cluster_id)
        txn.meta.set("log_id", command.cluster_id)


def set_scheduler_config(txn: WriteTxn, command: SetSchedulerConfig, effects: Effects) -> None:
    _stamp_expected(txn, command, txn.scheduler_config.get(), "the scheduler configuration")
    txn.scheduler_config.put(command.config)


def set_autopilot_config(txn: WriteTxn, command: SetAutopilotConfig, effects: Effects) -> None:
    _stamp_expected(txn, command, txn.autopilot_config.get(), "autopilot's configuration")
    txn.autopilot_config.put(command.config)


def _stamp_expected(
    txn: WriteTxn,
    command: SetSchedulerConfig | SetAutopilotConfig,
    known: SchedulerConfig | AutopilotConfig,
    what: str,
) -> None:
    """Gives the new settings their indexes. Raises ConflictError if the known ones are not those
    that the command expects."""
    expected = command.expected_modify_index
    if expected is not None and expected != known.modify_index:
        raise ConflictError(
            f"cannot change {what}: its modify index is {known.modify_index}, "
            f"but {expected} was expected; read it again"
        )
    command.config.create_index = known.create_index or txn.index
    command.config.modify_index = txn.index


def upsert_node_pools(txn: WriteTxn, command: UpsertNodePools, effects: Effects) -> None:
    for pool in command.pools:
        if pool.name in (ALL_NODES, DEFAULT):
            raise RefusedError(f"cannot change node pool {pool.name!r}: it is built in")
        _stamp(txn, pool, txn.node_pools.get(pool.name))
        effects.note(txn.index, "NodePoolUpserted", pool)
    txn.node_pools.put_all(command.pools)


def _stamp(txn: WriteTxn, new: NodePool | Namespace, known: NodePool | Namespace | None) -> None:
    new.create_index = known.create_index if known else txn.index
    new.modify_index = txn.index


def delete_node_pools(txn: WriteTxn, command: DeleteNodePools, effects: Effects) -> None:
    for name in command.names:
        effects.note(txn.index, "NodePoolDeleted", _unused_pool(txn, name))
    txn.node_pools.delete_all(command.names)


def _unused_pool(txn: WriteTxn, name: str) -> NodePool:
    if name in (ALL_NODES, DEFAULT):
        raise RefusedError(f"cannot delete node pool {name!r}: it is built in")
    pool = txn.node_pools.get(name)
    if pool is None:
        raise NotFoundError(f"cannot delete node pool {name!r}: there is no such pool")
    if txn.nodes.of_pool(name):
        raise RefusedError(f"cannot delete node pool {name!r}: it still has nodes")
    if txn.jobs.count_live_of_pool(name):
        raise RefusedError(f"cannot delete node pool {name!r}: jobs that are not dead name it")
    return pool


def upsert_namespaces(txn: WriteTxn, command: UpsertNamespaces, effects: Effects) -> None:
    for namespace in command.namespaces:
        _stamp(txn, namespace, txn.namespaces.get(namespace.name))
    txn.namespaces.put_all(command.namespaces)


def delete_namespaces(txn: WriteTxn, command: DeleteNamespaces, effects: Effects) -> None:
    for name in command.names:
        _check_unused_namespace(txn, name)
    txn.namespaces.delete_all(command.names)


def _check_unused_namespace(txn: WriteTxn, name: str) -> None:
    if name == DEFAULT:
        raise RefusedError(f"cannot delete namespace {name!r}: it is built in")
    if txn.namespaces.get(name) is None:
        raise NotFoundError(f"cannot delete namespace {name!r}: there is no such namespace")
    if txn.jobs.count_live_of_namespace(name):
        raise RefusedError(
            f"cannot delete namespace {name!r}: it has jobs that are not dead; stop them first"
        )
    if txn.host_volumes.all(namespace=name):
        raise RefusedError(f"cannot delete namespace {name!r}: it has volumes; delete them first")
    if txn.variables.all(namespace=name):
        raise RefusedError(f"cannot delete namespace {name!r}: it has variables; delete them first")


def put_quotas(txn: WriteTxn, command: PutQuotas, effects: Effects) -> None:
    for quota in command.quotas:
        known = txn.quotas.get(quota.name)
        quota.create_index = known.create_index if known else txn.index
        quota.modify_index = txn.index
    txn.quotas.put_all(command.quotas)


def delete_quotas(txn: WriteTxn, command: DeleteQuotas, effects: Effects) -> None:
    for name in command.names:
        if txn.quotas.get(name) is None:
            raise NotFoundError(f"cannot delete quota {name!r}: there is no such quota")
        users = [each.name for each in txn.namespaces.all() if each.quota == name]
        if users:
            raise RefusedError(
                f"cannot delete quota {name!r}: namespaces have it ({', '.join(users[:5])}); give "
                "them another one first"
            )
    txn.quotas.delete_all(command.names)


HANDLERS: Handlers = {
    SetClusterId: set_cluster_id,
    SetSchedulerConfig: set_scheduler_config,
    UpsertNodePools: upsert_node_pools,
    DeleteNodePools: delete_node_pools,
    UpsertNamespaces: upsert_namespaces,
    DeleteNamespaces: delete_namespaces,
    SetAutopilotConfig: set_autopilot_config,
    PutQuotas: put_quotas,
    DeleteQuotas: delete_quotas,
}
