"""Whatever is put into an allocation comes out again, from columns, shared parts and body."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    AllocState,
    DesiredTransition,
    DriverAddress,
    NetworkStatus,
    RescheduleEvent,
    RescheduleTracker,
    TaskEvent,
    TaskState,
)
from orchgit.model.evaluation import AllocMetric
from orchgit.model.plan import Placements
from orchgit.model.resources import AllocatedPort
from orchgit.state.store import Store
from orchgit.state.tables.allocation_rows import AllocBody, decode_body, encode_body
from tests.support.factories import NOW_NS, make_job, make_node, make_placements, make_resources
from tests.support.filled import filled
from tests.support.state import open_store

NOON = datetime(2027, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    yield store
    store.close()


def insert(store: Store, placements: Placements, index: int = 5) -> None:
    txn = store.begin()
    txn.begin_entry(index, NOW_NS)
    txn.allocations.insert_placed(placements)
    txn.end_entry()
    store.publish(txn.commit(index), index)


def test_plain_placement_has_no_body(store: Store) -> None:
    job, node = make_job(version=3), make_node()
    placements = make_placements(job, [node], 2, metrics=AllocMetric(nodes_evaluated=9))
    placements.commit_id, placements.rollout_id = "c0ffee", "r1"
    insert(store, placements)
    with store.snapshot() as snapshot:
        rows = snapshot.connection.execute("SELECT body FROM allocations").fetchall()
        allocation = snapshot.allocations.get(placements.alloc_ids[1])
    assert rows == [(None,), (None,)]
    assert allocation == Allocation(
        id=placements.alloc_ids[1],
        namespace="default",
        eval_id=placements.eval_id,
        name=f"{job.id}.web[1]",
        node_id=node.id,
        node_name=node.name,
        job_id=job.id,
        job_version=3,
        job_type="service",
        task_group="web",
        allocated_resources=make_resources(),
        metrics=AllocMetric(nodes_evaluated=9),
        commit_id="c0ffee",
        rollout_id="r1",
        create_index=5,
        modify_index=5,
        alloc_modify_index=5,
        create_time_ns=NOW_NS,
        modify_time_ns=NOW_NS,
    )


def test_rows_with_own_resources_and_metrics_keep_them(store: Store) -> None:
    tracker = RescheduleTracker(events=[RescheduleEvent(1, "before", "node", 5)])
    big = make_resources(cpu=500)
    placements = make_placements(
        make_job(),
        [make_node()],
        3,
        ports=[[AllocatedPort("http", 20000 + row)] for row in range(3)],
        resources_of={1: big},
        metrics_of={1: AllocMetric(nodes_filtered=2)},
        previous_of={2: "the-one-before"},
        canary_rows=[2],
        reschedule_of={2: tracker},
        preempts_of={0: ["victim"]},
    )
    insert(store, placements)
    with store.snapshot() as snapshot:
        found = [snapshot.allocations.get(id_) for id_ in placements.alloc_ids]
        usage = snapshot.connection.execute(
            "SELECT cpu_shares FROM allocations ORDER BY row"
        ).fetchall()
    one, two, three = [allocation for allocation in found if allocation is not None]
    assert usage == [(100,), (500,), (100,)]
    assert one.preempted_allocations == ["victim"]
    assert two.allocated_resources is not None
    assert two.allocated_resources.tasks == big.tasks
    assert two.allocated_resources.shared.ports == [AllocatedPort("http", 20001)]
    assert two.metrics == AllocMetric(nodes_filtered=2)
    assert three.previous_allocation == "the-one-before"
    assert three.deployment_status == AllocDeploymentStatus(canary=True)
    assert three.reschedule_tracker == tracker


def test_every_field_of_the_body_comes_back(store: Store) -> None:
    placements = make_placements(make_job(), [make_node()])
    insert(store, placements)
    body = AllocBody(
        desired_description="wanted",
        desired_transition=DesiredTransition(migrate=True),
        client_description="running well",
        task_states={"web": TaskState("running", started_at=NOON, events=[TaskEvent("Started")])},
        alloc_states=[AllocState(0, "unknown", NOON)],
        previous_allocation="previous",
        next_allocation="next",
        deployment_status=AllocDeploymentStatus(True, NOON, False, 6),
        reschedule_tracker=RescheduleTracker(last_reschedule="ok"),
        network_status=NetworkStatus("eth0", "10.0.0.1", dns={"Servers": ["10.0.0.2"]}),
        followup_eval_id="followup",
        preempted_allocations=["victim"],
        preempted_by_allocation="winner",
        resources=make_resources(cpu=7),
        metrics=AllocMetric(nodes_in_pool=1),
        driver_addresses={"web": DriverAddress(ip="172.20.0.2", ports={"http": 80})},
    )
    assert all(msgspec.structs.astuple(body)), "a new field belongs into this test"
    txn = store.begin()
    txn.begin_entry(6, NOW_NS + 1)
    record = txn.allocations.rows(placements.alloc_ids)[placements.alloc_ids[0]]
    record.body, record.client_status = body, "running"
    txn.allocations.save([record])
    txn.end_entry()
    txn.commit(6)
    with store.snapshot() as snapshot:
        allocation = snapshot.allocations.get(record.id)
    assert allocation is not None
    assert allocation.client_status == "running"
    assert allocation.allocated_resources == make_resources(cpu=7)
    assert (allocation.modify_index, allocation.alloc_modify_index) == (6, 5)
    for name in body.__struct_fields__:
        if name != "resources":
            assert getattr(allocation, name) == getattr(body, name), name


def test_shared_part_is_deleted_with_its_last_allocation(store: Store) -> None:
    placements = make_placements(make_job(), [make_node()], 3)
    insert(store, placements)

    def delete(ids: list[str]) -> list[tuple[object, ...]]:
        txn = store.begin()
        txn.begin_entry(7, NOW_NS)
        txn.allocations.delete_all(ids)
        txn.end_entry()
        txn.commit(7)
        with store.snapshot() as snapshot:
            return snapshot.connection.execute("SELECT uses FROM alloc_shared").fetchall()

    assert delete(placements.alloc_ids[:2]) == [(1,)]
    assert delete(placements.alloc_ids[2:]) == []


def test_row_has_the_same_bytes_as_from_a_version_with_fewer_fields() -> None:
    """During a rolling upgrade servers of both versions write it."""
    assert encode_body(AllocBody()) is None
    body = AllocBody(client_description="x", followup_eval_id="e")
    data = encode_body(body)
    assert data == b"\x82\xb2client_description\xa1x\xb0followup_eval_id\xa1e"
    assert decode_body(data) == body
    every = filled(AllocBody)
    assert decode_body(encode_body(every)) == every
