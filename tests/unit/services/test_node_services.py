"""Nodes coming, going and coming back (invariant 5), over a real log and store."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError, RefusedError
from orchgit.model.allocation import DriverAddress
from orchgit.model.job import Job
from orchgit.model.node import DrainStrategy, Node
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.nodes import UpdateNodeStatus
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.allocations.stop import stop_allocation
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.register import register_job
from orchgit.services.nodes.computed_class import computed_class
from orchgit.services.nodes.operations import (
    drain_node,
    evaluate_node,
    purge_node,
    set_node_eligibility,
)
from orchgit.services.nodes.registration import gated_status, register_node, update_node_status
from tests.support.earlier_members import WithEarlierMember, with_member_of, with_state
from tests.support.factories import make_group, make_job, make_node, make_system_job
from tests.support.use_cases import placed_job, ready_node, with_context


def system_job(job_id: str, **fields: Any) -> Job:
    groups = [make_group(reschedule_policy=None)]
    return make_system_job(id=job_id, task_groups=groups, **fields)


def stored(context: UseCaseContext, node_id: str) -> Node:
    with context.snapshot() as snapshot:
        node = snapshot.nodes.get(node_id)
    assert node is not None
    return node


def test_registering_never_sets_a_known_nodes_status() -> None:
    async def work(context: UseCaseContext) -> None:
        node = make_node(status="ready")
        first = await register_node(context, node)
        assert first.status == "initializing"
        await NodeReports(context, node.id).take([])
        await update_node_status(context, node.id, "ready")
        again = await register_node(context, replace(node, name="renamed", status="down"))
        assert again.status == stored(context, node.id).status == "ready"
        assert stored(context, node.id).name == "renamed"

    with_context(work)


def test_registering_again_with_the_same_facts_writes_nothing() -> None:
    async def work(context: UseCaseContext) -> None:
        node = make_node()
        await register_node(context, node)
        with context.snapshot() as snapshot:
            before = snapshot.index
        await register_node(context, node)
        with context.snapshot() as snapshot:
            assert snapshot.index == before

    with_context(work)


def test_node_with_another_secret_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        node = make_node()
        await register_node(context, node)
        with pytest.raises(NotAllowedError, match="secret"):
            await register_node(context, replace(node, secret_id="other"))

    with_context(work)


@pytest.mark.parametrize("field", ["id", "secret_id", "name", "datacenter", "node_pool"])
def test_incomplete_node_is_refused(field: str) -> None:
    async def work(context: UseCaseContext) -> None:
        with pytest.raises(InvalidInputError, match="missing"):
            await register_node(context, replace(make_node(), **{field: ""}))

    with_context(work)


def test_unknown_pool_is_created_for_its_first_node() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_node(context, make_node(node_pool="gpu"))
        with context.snapshot() as snapshot:
            assert snapshot.node_pools.get("gpu") is not None

    with_context(work)


def test_reports_leave_addresses_of_drivers_out_until_every_server_is_upgraded() -> None:
    """Servers of version 6 would pass over them, and have other tables than the rest."""

    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        (alloc_id,) = await placed_job(context, make_job(), [node])
        address = DriverAddress(ip="172.20.0.2")

        async def addresses_after_report(by: UseCaseContext, status: str) -> object:
            report = AllocClientUpdate(alloc_id, status, driver_addresses={"web": address})
            await NodeReports(by, node.id).take([report])
            with context.snapshot() as snapshot:
                found = snapshot.allocations.get(alloc_id)
            assert found is not None
            assert found.client_status == status
            return found.driver_addresses

        assert await addresses_after_report(with_member_of(6, context), "running") is None
        assert await addresses_after_report(context, "running") == {"web": address}

    with_context(work)


def test_addresses_of_drivers_that_were_left_out_are_stored_after_the_upgrade() -> None:
    """An agent that stays connected does not report them again by itself."""

    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        (first,) = await placed_job(context, make_job(), [node])
        (second,) = await placed_job(context, make_job(id="other"), [node])
        address = {"web": DriverAddress(ip="172.20.0.2")}
        state = WithEarlierMember(context.state, 6)
        reports = NodeReports(with_state(state, context), node.id)

        def stored() -> dict[str, object]:
            with context.snapshot() as snapshot:
                found = snapshot.allocations.get_many([first, second])
            return {each.id: each.driver_addresses for each in found}

        await reports.take(
            [AllocClientUpdate(id_, "running", driver_addresses=address) for id_ in (first, second)]
        )
        await reports.take([AllocClientUpdate(second, "complete", driver_addresses={})])
        before = context.state.store.watch.applied_index
        await reports.store_left_out()
        assert stored() == {first: None, second: None}
        assert context.state.store.watch.applied_index == before, "an entry for nothing"
        state.version = 7
        await reports.store_left_out()
        assert stored() == {first: address, second: None}
        after = context.state.store.watch.applied_index
        await reports.store_left_out()
        assert context.state.store.watch.applied_index == after, "an entry for nothing"

    with_context(work)


def test_returning_node_is_initializing_until_its_report_is_applied() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await context.propose(
            UpdateNodeStatus(node_id=node.id, status="down", missed_heartbeat=True)
        )
        with pytest.raises(RefusedError, match="while it is down"):
            await NodeReports(context, node.id).take([])
        assert (await update_node_status(context, node.id, "ready")).status == "initializing"
        assert (await update_node_status(context, node.id, "ready")).status == "initializing"
        await NodeReports(context, node.id).take([])
        assert (await update_node_status(context, node.id, "ready")).status == "ready"

    with_context(work)


def test_node_is_ready_only_after_an_update_newer_than_its_missed_heartbeat() -> None:
    missed_at_7 = replace(make_node(), last_missed_heartbeat_index=7)
    assert gated_status(replace(missed_at_7, last_alloc_update_index=7), "ready") == "initializing"
    assert gated_status(replace(missed_at_7, last_alloc_update_index=8), "ready") == "ready"
    assert gated_status(missed_at_7, "down") == "down"
    assert gated_status(make_node(), "ready") == "ready"


def test_node_going_down_evaluates_its_jobs_and_system_jobs() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await placed_job(context, make_job(id="web"), [node])
        await register_job(context, make_job(id="elsewhere"))
        await register_job(context, system_job("sys"))
        await register_job(context, system_job("far", datacenters=["other*"]))
        change = await update_node_status(context, node.id, "down")
        with context.snapshot() as snapshot:
            evaluations = [snapshot.evaluations.get(each) for each in change.eval_ids]
        assert sorted(each.job_id for each in evaluations if each) == ["sys", "web"]
        assert {each.triggered_by for each in evaluations if each} == {"node-update"}

    with_context(work)


def test_failed_allocation_evaluates_its_job_once() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        first, second = await placed_job(context, make_job(id="web", count=2), [node, node])
        reports = [AllocClientUpdate(first, "failed"), AllocClientUpdate(second, "failed")]
        await NodeReports(context, node.id).take(reports)
        await NodeReports(context, node.id).take(reports)
        with context.snapshot() as snapshot:
            found = snapshot.evaluations.of_job("default", "web")
        assert [each.triggered_by for each in found].count("alloc-failure") == 1

    with_context(work)


def test_reports_of_other_nodes_allocations_are_dropped() -> None:
    async def work(context: UseCaseContext) -> None:
        owner, stranger = await ready_node(context), await ready_node(context)
        (alloc_id,) = await placed_job(context, make_job(id="web"), [owner])
        await NodeReports(context, stranger.id).take([AllocClientUpdate(alloc_id, "failed")])
        with context.snapshot() as snapshot:
            allocation = snapshot.allocations.get(alloc_id)
            evaluations = snapshot.evaluations.of_job("default", "web")
        assert allocation is not None
        assert allocation.client_status == "running"
        assert "alloc-failure" not in {each.triggered_by for each in evaluations}

    with_context(work)


def test_reports_of_an_unknown_node_are_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        with pytest.raises(NotFoundError, match="unknown"):
            await NodeReports(context, "nobody").take([])

    with_context(work)


def test_drain_starts_at_once_and_makes_the_node_ineligible() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await drain_node(context, node.id, DrainStrategy(deadline_ns=60_000_000_000))
        draining = stored(context, node.id)
        assert draining.drain_strategy is not None
        assert draining.scheduling_eligibility == "ineligible"
        started, force = draining.drain_strategy.started_at, draining.drain_strategy.force_deadline
        assert started is not None
        assert force is not None
        assert (force - started).total_seconds() == 60
        with pytest.raises(RefusedError, match="while it is draining"):
            await set_node_eligibility(context, node.id, "eligible")
        await drain_node(context, node.id, None, mark_eligible=True)
        assert stored(context, node.id).is_ready

    with_context(work)


def test_node_made_eligible_evaluates_system_jobs() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await register_job(context, system_job("sys"))
        assert (await set_node_eligibility(context, node.id, "ineligible")).eval_ids == ()
        assert len((await set_node_eligibility(context, node.id, "eligible")).eval_ids) == 1
        with pytest.raises(RefusedError, match="invalid scheduling eligibility"):
            await set_node_eligibility(context, node.id, "maybe")

    with_context(work)


def test_purged_node_is_deleted_and_its_jobs_are_evaluated() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await placed_job(context, make_job(id="web"), [node])
        assert len((await evaluate_node(context, node.id)).eval_ids) == 1
        change = await purge_node(context, node.id)
        with context.snapshot() as snapshot:
            assert snapshot.nodes.get(node.id) is None
        assert len(change.eval_ids) == 1

    with_context(work)


def test_computed_class_ignores_attributes_unique_to_a_node() -> None:
    one = make_node(attributes={"kernel.name": "linux", "unique.hostname": "a"})
    two = make_node(attributes={"kernel.name": "linux", "unique.hostname": "b"})
    other = make_node(attributes={"kernel.name": "darwin", "unique.hostname": "a"})
    assert computed_class(one) == computed_class(two) != computed_class(other)


@pytest.mark.parametrize(
    ("ended", "reported", "stays"),
    [
        ("complete", "running", "complete"),
        ("failed", "running", "failed"),
        ("failed", "complete", "failed"),
        ("lost", "running", "running"),
    ],
)
def test_report_revives_only_lost_allocations(ended: str, reported: str, stays: str) -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        alloc_ids = await placed_job(context, make_job(), [node])
        command = UpdateAllocsFromClient(
            now_ns=context.now_ns(),
            node_id=node.id,
            updates=[AllocClientUpdate(alloc_ids[0], ended)],
        )
        await context.propose(command)
        await NodeReports(context, node.id).take([AllocClientUpdate(alloc_ids[0], reported)])
        with context.snapshot() as snapshot:
            held = snapshot.allocations.get(alloc_ids[0])
        assert held is not None
        assert held.client_status == stays

    with_context(work)


def test_allocation_of_a_purged_job_can_be_stopped() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        job = make_job()
        alloc_ids = await placed_job(context, job, [node])
        deletion = JobDeletion(namespace=job.namespace, job_id=job.id, purge=True)
        await context.propose(DeregisterJob(now_ns=context.now_ns(), deletion=deletion))
        stopped = await stop_allocation(context, alloc_ids[0])
        with context.snapshot() as snapshot:
            evaluation = snapshot.evaluations.get(stopped.eval_id)
        assert evaluation is not None
        assert evaluation.job_id == job.id

    with_context(work)
