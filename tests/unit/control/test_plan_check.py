"""What a plan may still do: each rule by one small plan, and that nothing is ever over-committed.

The recorded cases of tests/golden/plan say the same of the real thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.control.plans.check import examine_plan, without_nodes
from orchgit.control.plans.node_usage import ask_of, usage_of
from orchgit.control.plans.usage_cache import NodeUsageCache
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.job import Job
from orchgit.model.node import Eligibility, Node, NodeStatus
from orchgit.model.plan import AllocPreemption, AllocStop, AllocUpdate, Plan, VolumeClaimRequest
from orchgit.model.resources import AllocatedPort
from orchgit.model.volume import VolumeRequest
from tests.support.factories import (
    make_allocation,
    make_deployment,
    make_group,
    make_job,
    make_node,
    make_placements,
    make_resources,
)


@dataclass
class ListView:
    nodes: list[Node] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    index: int = 50

    def node(self, node_id: str) -> Node | None:
        return next((node for node in self.nodes if node.id == node_id), None)

    def allocations_on_node(self, node_id: str) -> Sequence[Allocation]:
        return [held for held in self.allocations if held.node_id == node_id]

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)


def small_node(**fields: object) -> Node:
    """Room for one `make_allocation()` of 100 MHz and half a second one."""
    return make_node(cpu_shares=150, **fields)


def test_plan_that_fits_is_committed_whole() -> None:
    node, job = make_node(), make_job()
    plan = Plan(placements=[make_placements(job, [node], 3)])
    check = examine_plan(plan, ListView([node]))
    assert check.result.placements is plan.placements
    assert check.result.refresh_index == 0
    assert check.usages[node.id].cpu_shares == 300


def test_full_node_is_rejected_and_the_rest_is_committed() -> None:
    full, empty, job = small_node(), make_node(), make_job()
    view = ListView([full, empty], [make_allocation(job, full)], index=77)
    placements = make_placements(job, [full, empty], 4, canary_rows=[1, 2])
    placements.previous_of = {0: "gone", 3: "old"}
    claims = [VolumeClaimRequest(alloc_id=alloc_id) for alloc_id in placements.alloc_ids]
    result = examine_plan(Plan(placements=[placements], claims=claims), view).result
    assert result.rejected_nodes == [full.id]
    assert result.refresh_index == 77
    (kept,) = result.placements
    assert kept.alloc_ids == [placements.alloc_ids[1], placements.alloc_ids[3]]
    assert kept.node_ids == [empty.id] * 2
    assert kept.canary_rows == [0]
    assert kept.previous_of == {1: "old"}
    assert [claim.alloc_id for claim in result.claims] == kept.alloc_ids


def test_all_at_once_plan_is_committed_whole_or_not_at_all() -> None:
    full, empty, job = small_node(), make_node(), make_job()
    view = ListView([full, empty], [make_allocation(job, full)])
    plan = Plan(
        all_at_once=True,
        placements=[make_placements(job, [empty, full])],
        deployment=make_deployment(job),
    )
    result = examine_plan(plan, view).result
    assert not result.placements
    assert result.deployment is None
    assert result.rejected_nodes == [full.id]


def test_stopped_or_evicted_allocation_frees_its_resources() -> None:
    node, job = small_node(), make_job()
    held = make_allocation(job, node)
    view = ListView([node], [held])
    placements = [make_placements(job, [node])]
    assert examine_plan(Plan(placements=placements), view).reasons == {node.id: "cpu"}
    stopping = Plan(placements=placements, stops=[AllocStop(alloc_id=held.id, node_id=node.id)])
    assert not examine_plan(stopping, view).reasons
    evicting = Plan(
        placements=placements,
        preemptions=[AllocPreemption(alloc_id=held.id, node_id=node.id, preempted_by="x")],
    )
    assert len(examine_plan(evicting, view).result.preemptions) == 1


def test_ended_allocation_is_not_evicted() -> None:
    node, job = small_node(), make_job()
    ended = make_allocation(job, node, client_status=ClientStatus.COMPLETE)
    plan = Plan(
        placements=[make_placements(job, [node])],
        preemptions=[AllocPreemption(alloc_id=ended.id, node_id=node.id)],
    )
    result = examine_plan(plan, ListView([node], [ended])).result
    assert len(result.placements[0]) == 1
    assert result.preemptions == []


def test_placement_needs_a_known_ready_and_eligible_node() -> None:
    job = make_job()
    nodes = {
        "node is not eligible": make_node(scheduling_eligibility=Eligibility.INELIGIBLE),
        "node is not ready for placements": make_node(status=NodeStatus.INITIALIZING),
        "node is disconnected and contains invalid updates": make_node(
            status=NodeStatus.DISCONNECTED
        ),
        "node does not exist": make_node(),
    }
    view = ListView([node for reason, node in nodes.items() if "exist" not in reason])
    for reason, node in nodes.items():
        check = examine_plan(Plan(placements=[make_placements(job, [node])]), view)
        assert check.reasons == {node.id: reason}


def test_silent_node_takes_only_updates_that_record_its_state() -> None:
    job = make_job()
    gone, away = make_node(status=NodeStatus.DOWN), make_node(status=NodeStatus.DISCONNECTED)
    held = [make_allocation(job, node) for node in (gone, away)]
    view = ListView([gone, away], held, [job])

    def reasons(*statuses: str) -> set[str]:
        updates = [
            AllocUpdate(alloc_id=each.id, node_id=each.node_id, client_status=status)
            for each, status in zip(held, statuses, strict=True)
        ]
        return set(examine_plan(Plan(updates=updates), view).reasons)

    assert reasons(ClientStatus.LOST, ClientStatus.UNKNOWN) == set()
    assert reasons(ClientStatus.UNKNOWN, ClientStatus.LOST) == {gone.id, away.id}


@pytest.mark.parametrize("status", [NodeStatus.DOWN, NodeStatus.DISCONNECTED, NodeStatus.READY])
def test_update_of_server_fields_needs_no_ready_node(status: str) -> None:
    node, job = make_node(status=status, scheduling_eligibility=Eligibility.INELIGIBLE), make_job()
    failed = make_allocation(job, node, client_status=ClientStatus.FAILED)
    note = AllocUpdate(alloc_id=failed.id, node_id=node.id, followup_eval_id="later")
    gone = AllocUpdate(alloc_id="a", node_id="gone", followup_eval_id="later")
    assert not examine_plan(Plan(updates=[note, gone]), ListView([node], [failed], [job])).reasons


def test_node_that_is_down_refuses_placements() -> None:
    node, job = make_node(status=NodeStatus.DOWN), make_job()
    held = make_allocation(job, node)
    in_place = AllocUpdate(alloc_id=held.id, node_id=node.id, job_version=1)
    view = ListView([node], [held], [job])
    for plan in (Plan(updates=[in_place]), Plan(placements=[make_placements(job, [node])])):
        reasons = examine_plan(plan, view).reasons
        assert reasons == {node.id: "node is down and contains invalid updates"}


def test_returning_client_status_is_recorded_on_an_initializing_node() -> None:
    node, job = make_node(status=NodeStatus.INITIALIZING), make_job()
    held = make_allocation(job, node)
    update = AllocUpdate(alloc_id=held.id, node_id=node.id, record_client_status="running")
    view = ListView([node], [held], [job])
    assert not examine_plan(Plan(updates=[update]), view).reasons
    placement = make_placements(job, [node])
    assert examine_plan(Plan(updates=[update], placements=[placement]), view).reasons


def test_allocation_updated_and_stopped_by_one_plan_frees_its_resources() -> None:
    node, job = small_node(), make_job()
    held = make_allocation(job, node)
    plan = Plan(
        stops=[AllocStop(alloc_id=held.id, node_id=node.id)],
        updates=[AllocUpdate(alloc_id=held.id, node_id=node.id, record_client_status="running")],
        placements=[make_placements(job, [node])],
    )
    assert not examine_plan(plan, ListView([node], [held], [job])).reasons


def test_stops_need_no_node() -> None:
    stop = AllocStop(alloc_id="a", node_id="gone")
    assert examine_plan(Plan(stops=[stop]), ListView()).result.stops == [stop]


def test_ports_cores_and_devices_are_assigned_once() -> None:
    node, job = make_node(), make_job()
    port = [AllocatedPort(label="http", value=8080)]
    twice = make_placements(job, [node], 2, ports=[port, port])
    assert (
        "port 8080 already in use"
        in examine_plan(Plan(placements=[twice]), ListView([node])).reasons[node.id]
    )
    resources = make_resources()
    resources.tasks["web"].cpu.reserved_cores = [1]
    cores = make_placements(job, [node], 2, resources=resources)
    assert examine_plan(Plan(placements=[cores]), ListView([node])).reasons == {node.id: "cores"}


def test_single_writer_volume_has_one_writer_per_node() -> None:
    request = VolumeRequest(
        name="data", type="host", source="data", access_mode="single-node-single-writer"
    )
    job = make_job(task_groups=[make_group(volumes={"data": request})])
    node = make_node()
    plan = Plan(placements=[make_placements(job, [node])])
    view = ListView([node], [], [job])
    assert not examine_plan(plan, view).reasons
    view.allocations.append(make_allocation(job, node))
    assert "single-writer" in examine_plan(plan, view).reasons[node.id]


def test_node_takes_no_more_allocations_than_its_limit() -> None:
    node, job = make_node(node_max_allocs=3), make_job()
    view = ListView([node], [make_allocation(job, node)])
    assert not examine_plan(Plan(placements=[make_placements(job, [node], 2)]), view).reasons
    full = Plan(placements=[make_placements(job, [node], 3)])
    assert examine_plan(full, view).reasons == {node.id: "max allocation exceeded"}
    full.stops = [AllocStop(alloc_id=view.allocations[0].id, node_id=node.id)]
    assert not examine_plan(full, view).reasons


def test_rows_of_rejected_nodes_are_removed_from_placements() -> None:
    nodes = [make_node() for _ in range(3)]
    placements = make_placements(make_job(), nodes, 6)
    assert without_nodes(placements, set()) is placements
    assert without_nodes(placements, {node.id for node in nodes}) is None
    kept = without_nodes(placements, {nodes[0].id})
    assert kept is not None
    assert len(kept) == 4
    assert nodes[0].id not in kept.node_ids


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_committed_plans_never_over_commit_and_node_usage_agrees_with_state(
    data: st.DataObject,
) -> None:
    """Plans drawn at random are checked with remembered usage, and applied to a list."""
    job = make_job()
    nodes = [make_node(cpu_shares=data.draw(st.integers(100, 500))) for _ in range(3)]
    view, ledger = ListView(nodes), NodeUsageCache()
    for _ in range(data.draw(st.integers(1, 8))):
        rows = data.draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=5))
        live = [held for held in view.allocations if not held.is_terminal]
        stopped = data.draw(st.lists(st.sampled_from(live), unique_by=id)) if live else []
        plan = Plan(
            placements=[make_placements(job, rows)],
            stops=[AllocStop(alloc_id=held.id, node_id=held.node_id) for held in stopped],
        )
        check = examine_plan(plan, view, ledger)
        _apply(view, check.result, job)
        ledger.record(check.usages)
        ledger.forget({stop.node_id for stop in plan.stops} - set(check.usages))
        for node in nodes:
            real = usage_of(
                node, [a for a in view.allocations_on_node(node.id) if not a.is_terminal]
            )
            assert real.cpu_shares <= node.node_resources.cpu.cpu_shares
            assert ledger.usage(node, view) == real


def _apply(view: ListView, result: object, job: Job) -> None:
    stopped = {stop.alloc_id for stop in result.stops}  # type: ignore[attr-defined]
    view.allocations = [
        msgspec.structs.replace(held, desired_status="stop") if held.id in stopped else held
        for held in view.allocations
    ]
    for group in result.placements:  # type: ignore[attr-defined]
        for alloc_id, node_id in zip(group.alloc_ids, group.node_ids, strict=True):
            made = make_allocation(job, id=alloc_id, node_id=node_id)
            view.allocations.append(made)


def test_resource_ask_sums_tasks_that_run_together() -> None:
    assert ask_of(make_resources(cpu=10, memory_mb=20, disk_mb=30)).cpu_shares == 10
    assert ask_of(None).memory_mb == 0
