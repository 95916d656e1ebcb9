"""Rows of steady allocations are told apart by their columns and what stands out in their body."""

from __future__ import annotations

from pathlib import Path

import msgspec

from orchgit.model.allocation import AllocDeploymentStatus, AllocState, DesiredTransition, TaskState
from orchgit.model.node import Namespace
from orchgit.state.cluster_view import SnapshotClusterView
from orchgit.state.columns import ClusterColumns
from orchgit.state.job_allocations import job_allocations
from orchgit.state.tables.allocation_rows import AllocBody
from tests.support.factories import NOW_NS, make_job, make_node, make_placements
from tests.support.state import open_store

STEADY = AllocBody(
    task_states={"t": TaskState(state="running")},
    deployment_status=AllocDeploymentStatus(healthy=True),
    previous_allocation="b",
)
UNSTEADY = (
    AllocBody(desired_transition=DesiredTransition(migrate=True)),
    AllocBody(alloc_states=[AllocState(value="unknown")]),
    AllocBody(deployment_status=AllocDeploymentStatus(canary=True)),
)


def test_only_steady_allocations_are_told_apart(tmp_path: Path) -> None:
    job, calm, away = make_job(version=3), make_node(), make_node()
    placements = make_placements(job, [calm] * 14 + [away], 15)
    ids = placements.alloc_ids
    store = open_store(tmp_path)
    txn = store.begin()
    txn.begin_entry(5, NOW_NS)
    txn.allocations.insert_placed(placements)
    bodies = dict(zip(ids, (STEADY, *UNSTEADY), strict=False))
    for alloc_id, body in bodies.items():
        values = (msgspec.msgpack.encode(body), alloc_id)
        txn.connection.execute("UPDATE allocations SET body = ? WHERE id = ?", values)
    for alloc_id, change in (
        (ids[4], "desired_status = 'stop'"),
        (ids[5], "client_status = 'failed'"),
        (ids[6], "job_version = 2"),
        (ids[7], "client_status = 'running'"),
    ):
        sql = f"UPDATE allocations SET {change} WHERE id = ?"
        txn.connection.execute(sql, (alloc_id,))
    txn.end_entry()
    store.publish(txn.commit(5), 5)
    with store.snapshot() as snapshot:
        read = job_allocations(snapshot, job, {calm.id})
        every = {each.id: each for each in snapshot.allocations.of_job(job.namespace, job.id)}
    store.close()
    others = sorted([*ids[1:7], ids[14]])
    assert read.others == [every[alloc_id] for alloc_id in others]
    group = read.steady[job.task_groups[0].name]
    assert sorted(group.name_indexes) == [0, *range(7, 14)]
    assert set(group.node_ids) == {calm.id}


def test_namesakes_are_running_allocations_of_the_same_job_id_in_other_namespaces(
    tmp_path: Path,
) -> None:
    node = make_node()
    here = make_job(id="web")
    there = make_job(id="web", namespace="another")
    store = open_store(tmp_path)
    txn = store.begin()
    txn.begin_entry(5, NOW_NS)
    txn.namespaces.put_all([Namespace(name="another")])
    txn.allocations.insert_placed(make_placements(here, [node] * 3, 3))
    placements = make_placements(there, [node] * 2, 2)
    txn.allocations.insert_placed(placements)
    txn.allocations.insert_placed(
        make_placements(make_job(id="other", namespace="another"), [node], 1)
    )
    sql = "UPDATE allocations SET client_status = 'complete' WHERE id = ?"
    txn.connection.execute(sql, (placements.alloc_ids[0],))
    txn.end_entry()
    store.publish(txn.commit(5), 5)
    with store.snapshot() as snapshot:
        group = here.task_groups[0].name
        assert snapshot.allocations.namesakes_of_job("default", "web") == [(group, node.id)]
        assert snapshot.allocations.namesakes_of_job("another", "web") == [(group, node.id)] * 3
        assert snapshot.allocations.namesakes_of_job("default", "nobody") == []
        view = SnapshotClusterView(snapshot, ClusterColumns())
        assert view.namesakes("default", "web") == [(group, node.id)]
    store.close()
