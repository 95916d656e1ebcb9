"""Nodes (invariant 5), drains, pools, namespaces, scheduler settings, volumes."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.errors import ConflictError, NotAllowedError, NotFoundError, RefusedError
from orchgit.model.node import DrainStrategy, Namespace, NodeEvent, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.replication.commands.nodes import (
    DeleteNodes,
    RegisterNode,
    UpdateNodeDrain,
    UpdateNodeEligibility,
    UpdateNodeStatus,
)
from orchgit.replication.commands.settings import (
    DeleteNamespaces,
    DeleteNodePools,
    SetClusterId,
    SetSchedulerConfig,
    UpsertNamespaces,
    UpsertNodePools,
)
from orchgit.replication.commands.volumes import (
    DeleteHostVolume,
    DeleteVolumeClaim,
    UpsertHostVolume,
)
from orchgit.replication.events import event_of
from tests.support.factories import make_evaluation, make_job
from tests.unit.replication.conftest import Cluster


def test_node_registered_again_keeps_the_fields_of_the_servers(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.do(UpdateNodeStatus(node_id=node.id, status="down"))
    cluster.do(UpdateNodeEligibility(node_id=node.id, eligibility="ineligible"))
    cluster.do(RegisterNode(node=msgspec.structs.replace(node, node_class="big", status="ready")))
    with cluster.see() as snapshot:
        stored = snapshot.nodes.get(node.id)
        assert snapshot.nodes.changed_since(3) == [stored]
    assert stored is not None
    assert (stored.status, stored.scheduling_eligibility) == ("down", "ineligible")
    assert (stored.node_class, stored.create_index) == ("big", 1)
    assert [event.message for event in stored.events] == ["Node registered"]


def test_another_secret_is_refused(cluster: Cluster) -> None:
    node = cluster.node()
    with pytest.raises(NotAllowedError, match="secret"):
        cluster.do(RegisterNode(node=msgspec.structs.replace(node, secret_id="guess")))


def test_node_makes_its_pool(cluster: Cluster) -> None:
    cluster.node(node_pool="gpu")
    with cluster.see() as snapshot:
        assert snapshot.node_pools.get("gpu") is not None


def test_node_is_ready_only_after_it_reported_its_allocations(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.do(UpdateNodeStatus(node_id=node.id, status="down", missed_heartbeat=True))
    cluster.do(UpdateNodeStatus(node_id=node.id, status="initializing"))
    with pytest.raises(ConflictError, match="missed heartbeats at index 2"):
        cluster.do(UpdateNodeStatus(node_id=node.id, status="ready"))
    cluster.report(node)
    cluster.do(UpdateNodeStatus(node_id=node.id, status="ready"))
    with cluster.see() as snapshot:
        stored = snapshot.nodes.get(node.id)
    assert stored is not None
    assert stored.status == "ready"
    assert stored.last_missed_heartbeat_index < stored.last_alloc_update_index


def test_report_does_not_change_the_node_for_its_watchers(cluster: Cluster) -> None:
    node = cluster.node()
    before = cluster.store.watch.index(["nodes"])
    cluster.report(node)
    assert cluster.store.watch.index(["nodes"]) == before


def test_last_ten_events_are_kept(cluster: Cluster) -> None:
    node = cluster.node()
    for number in range(12):
        event = NodeEvent(message=f"event {number}", subsystem="Cluster")
        cluster.do(UpdateNodeStatus(node_id=node.id, status="ready", event=event))
    with cluster.see() as snapshot:
        stored = snapshot.nodes.get(node.id)
    assert stored is not None
    assert [event.message for event in stored.events] == [f"event {n}" for n in range(2, 12)]


def test_draining_node_is_ineligible_until_the_drain_is_cancelled(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.do(UpdateNodeDrain(node_id=node.id, drain=DrainStrategy(deadline_ns=5)))
    with cluster.see() as snapshot:
        draining = snapshot.nodes.get(node.id)
    assert draining is not None
    assert (draining.drain, draining.scheduling_eligibility) == (True, "ineligible")
    with pytest.raises(ConflictError, match="draining"):
        cluster.do(UpdateNodeEligibility(node_id=node.id, eligibility="eligible"))
    cluster.do(UpdateNodeDrain(node_id=node.id, mark_eligible=True))
    with cluster.see() as snapshot:
        back = snapshot.nodes.get(node.id)
    assert back is not None
    assert (back.drain, back.scheduling_eligibility) == (False, "eligible")
    assert (back.last_drain or {})["Status"] == "canceled"


def test_purged_node_is_gone(cluster: Cluster) -> None:
    node = cluster.node()
    evaluation = make_evaluation(make_job())
    cluster.do(DeleteNodes(node_ids=[node.id], evaluations=[evaluation]))
    with cluster.see() as snapshot:
        assert snapshot.nodes.get(node.id) is None
        assert snapshot.evaluations.get(evaluation.id) is not None
    with pytest.raises(NotFoundError, match=node.id):
        cluster.do(DeleteNodes(node_ids=[node.id]))


def test_no_secret_leaves_by_events(cluster: Cluster) -> None:
    node = cluster.node()
    assert cluster.noted() == ["Node:NodeRegistration"]
    assert node.secret_id not in repr(event_of("NodeRegistration", 1, node))


def test_pools_in_use_are_not_deleted(cluster: Cluster) -> None:
    cluster.do(UpsertNodePools(pools=[NodePool(name="gpu")]))
    cluster.node(node_pool="gpu")
    with pytest.raises(RefusedError, match="still has nodes"):
        cluster.do(DeleteNodePools(names=["gpu"]))
    with pytest.raises(RefusedError, match="built in"):
        cluster.do(DeleteNodePools(names=["default"]))
    with pytest.raises(RefusedError, match="built in"):
        cluster.do(UpsertNodePools(pools=[NodePool(name="all")]))
    cluster.do(UpsertNodePools(pools=[NodePool(name="empty")]))
    cluster.do(DeleteNodePools(names=["empty"]))
    with pytest.raises(NotFoundError, match="'empty'"):
        cluster.do(DeleteNodePools(names=["empty"]))


def test_namespaces_in_use_are_not_deleted(cluster: Cluster) -> None:
    cluster.do(UpsertNamespaces(namespaces=[Namespace(name="team")]))
    cluster.register(make_job(namespace="team"))
    with pytest.raises(RefusedError, match="jobs that are not dead"):
        cluster.do(DeleteNamespaces(names=["team"]))
    with pytest.raises(RefusedError, match="built in"):
        cluster.do(DeleteNamespaces(names=["default"]))
    cluster.do(UpsertNamespaces(namespaces=[Namespace(name="empty", description="no one")]))
    cluster.do(DeleteNamespaces(names=["empty"]))
    with cluster.see() as snapshot:
        assert [one.name for one in snapshot.namespaces.all()] == ["default", "team"]


def test_scheduler_settings_are_compared_and_set(cluster: Cluster) -> None:
    with cluster.see() as snapshot:
        assert snapshot.scheduler_config.get() == SchedulerConfig()
    config = SchedulerConfig(scheduler_algorithm="spread")
    cluster.do(SetSchedulerConfig(config=config, expected_modify_index=0))
    with pytest.raises(ConflictError, match="its modify index is 1"):
        cluster.do(SetSchedulerConfig(config=config, expected_modify_index=0))
    with cluster.see() as snapshot:
        stored = snapshot.scheduler_config.get()
    assert (stored.scheduler_algorithm, stored.modify_index) == ("spread", 1)


def test_cluster_keeps_its_first_id(cluster: Cluster) -> None:
    cluster.do(SetClusterId(cluster_id="one"), SetClusterId(cluster_id="two"))
    with cluster.see() as snapshot:
        assert snapshot.meta.cluster_id() == "one"


def test_claimed_volume_is_not_deleted(cluster: Cluster) -> None:
    job = make_job()
    cluster.register(job)
    cluster.do(UpsertHostVolume(volume=HostVolume(id="v", name="data", node_id="n")))
    txn = cluster.store.begin()
    txn.begin_entry(9, 0)
    txn.volume_claims.put(TaskGroupVolumeClaim(id="c", job_id=job.id, volume_id="v"))
    txn.end_entry()
    cluster.store.publish(txn.commit(9), 9)
    with pytest.raises(ConflictError, match="claims it"):
        cluster.do(DeleteHostVolume(namespace="default", volume_id="v"))
    cluster.do(DeleteVolumeClaim(claim_id="c"))
    with cluster.see() as snapshot:
        assert [one.name for one in snapshot.host_volumes.all(node_id="n")] == ["data"]
    cluster.do(DeleteHostVolume(namespace="default", volume_id="v"))
    with pytest.raises(NotFoundError):
        cluster.do(DeleteHostVolume(namespace="default", volume_id="v"))
