"""Whether a change fits: the numbers agree with the scheduler's plan, and with each other."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.errors import UnavailableError
from orchgit.model.allocation import AllocDeploymentStatus
from orchgit.model.constraint import Constraint
from orchgit.model.evaluation import Evaluation
from orchgit.model.fit import GroupFit, RuledOut
from orchgit.model.group import UpdateStrategy
from orchgit.model.job import Job, PeriodicConfig
from orchgit.model.plan import Plan
from orchgit.model.resources import Resources
from orchgit.scheduler.schedule import schedule
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.dry_run import DryRun, DryRunOptions
from orchgit.services.jobs.dry_run_view import ImaginedView
from orchgit.services.jobs.fit import Decision, capacities, group_fits
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_job, make_task
from tests.support.random_clusters import JOB_ID, random_case
from tests.support.scheduling import make_network_node
from tests.support.use_cases import placed_job, ready_node, with_context

WHOLE = DryRunOptions(with_diff=False, whole_updates=True)


def job_of(
    job_id: str, memory_mb: int, count: int = 1, version: str = "1", **fields: object
) -> Job:
    task = make_task(resources=Resources(cpu=10, memory_mb=memory_mb), env={"VERSION": version})
    update = fields.pop("update", None)
    group = make_group(tasks=[task], count=count, update=update)
    return make_job(id=job_id, task_groups=[group], **fields)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_numbers_of_groups_are_those_of_the_scheduler_s_plan(seed: int) -> None:
    case = random_case(seed)
    case.evaluation.annotate_plan = True
    outcome = schedule(case.evaluation, case.cluster, case.cluster.now_ns, seed)
    plan = outcome.plan or Plan()
    held = case.cluster.allocations_by_job("default", JOB_ID)
    groups = group_fits(case.job, Decision(outcome.evaluation, plan), held)
    assert sum(each.placed + each.replaced for each in groups) == sum(map(len, plan.placements))
    assert sum(each.replaced + each.stopped for each in groups) == len(plan.stops)
    assert sum(each.preempted for each in groups) == len(plan.preemptions)
    queued = outcome.evaluation.queued_allocations or {}
    if case.job.type in ("service", "batch"):
        assert {each.name: each.blocked for each in groups if each.blocked} == {
            name: count for name, count in queued.items() if count
        }
    failed = outcome.evaluation.failed_tg_allocs or {}
    assert {each.name for each in groups if not each.fits} == set(failed)
    assert all(each.ruled_out for each in groups if not each.fits)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_free_capacity_changes_by_what_a_plan_places_and_ends(seed: int) -> None:
    case = random_case(seed)
    case.evaluation.annotate_plan = True
    view = ImaginedView(case.cluster, [case.job])
    outcome = schedule(case.evaluation, view, case.cluster.now_ns, seed)
    plan = outcome.plan or Plan()
    view.carry_out(plan)
    ready = {node.id for node in case.cluster.nodes.values() if node.is_ready}
    allocations = case.cluster.allocs
    ended = [each.alloc_id for each in (*plan.stops, *plan.preemptions)]
    freed = sum(
        allocations[each].allocated_resources.total().memory_mb
        for each in set(ended)
        if allocations[each].node_id in ready and not allocations[each].is_client_terminal
    )
    taken = sum(
        columns.resources.total().memory_mb
        for columns in plan.placements
        for node_id in columns.node_ids
        if node_id in ready
    )
    found = capacities(view.node_rooms())
    assert sum(each.nodes for each in found) == len(ready)
    before = sum(each.free_before.memory_mb for each in found)
    after = sum(each.free_after.memory_mb for each in found)
    assert before - after == taken - freed


def test_jobs_that_fit_only_alone_do_not_fit_together() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context, memory_mb=1000)
        jobs = [job_of("one", 600), job_of("two", 600)]
        for job in jobs:
            assert (await DryRun(context).plan_jobs([job], options=WHOLE)).fit.fits
        fit = (await DryRun(context).plan_jobs(jobs, options=WHOLE)).fit
        assert not fit.fits
        assert fit.blocked == 1
        [blocked] = fit.by_key["default", "two"].groups
        assert (blocked.placed, blocked.blocked, blocked.wanted) == (0, 1, 1)
        assert blocked.ruled_out == [RuledOut("memory exhausted", 1)]
        [pool] = fit.capacity
        assert (pool.node_pool, pool.datacenter, pool.nodes) == ("default", "dc1", 1)
        assert pool.free_before.memory_mb - pool.free_after.memory_mb == 600

    with_context(work)


def test_every_step_of_an_update_counts_and_the_first_step_is_told() -> None:
    async def work(context: UseCaseContext) -> None:
        nodes = [await ready_node(context, memory_mb=1000) for _ in range(3)]
        update = UpdateStrategy(max_parallel=1)
        await placed_job(context, job_of("web", 100, 3, update=update), nodes)
        dry_run = DryRun(context)
        larger = job_of("web", 950, 3, "2", update=update)
        [group] = (await dry_run.plan_jobs([larger], options=WHOLE)).fit.jobs[0].groups
        assert (group.replaced, group.first, group.blocked) == (3, 1, 0)
        await placed_job(context, job_of("other", 64), nodes[1:])
        [group] = (await dry_run.plan_jobs([larger], options=WHOLE)).fit.jobs[0].groups
        assert (group.replaced, group.first, group.blocked) == (1, 1, 2)
        assert not group.fits
        [step] = (await dry_run.plan_jobs([larger])).fit.jobs[0].groups
        assert (step.replaced, step.blocked) == (1, 0)

    with_context(work)


def test_canary_without_room_beside_the_old_allocations_does_not_fit() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context, memory_mb=1000)
        update = UpdateStrategy(max_parallel=1, canary=1)
        await placed_job(context, job_of("web", 64, update=update), [node])
        fit = (
            await DryRun(context).plan_jobs(
                [job_of("web", 950, 1, "2", update=update)], options=WHOLE
            )
        ).fit
        [group] = fit.jobs[0].groups
        assert (group.replaced, group.blocked, group.first_blocked) == (1, 0, 1)
        assert (fit.fits, fit.blocked) == (False, 1)

    with_context(work)


def test_system_job_that_no_node_qualifies_for_does_not_fit() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context)
        windows = Constraint(l_target="${attr.kernel.name}", operand="=", r_target="windows")
        job = replace(job_of("agent", 10, type="system"), constraints=[windows])
        fit = (await DryRun(context).plan_jobs([job], options=WHOLE)).fit
        [group] = fit.jobs[0].groups
        assert (fit.fits, group.no_node_qualifies, group.blocked) == (False, True, 0)
        assert group.ruled_out[0].text == "constraint ${attr.kernel.name} = windows on 1 node"

    with_context(work)


def test_launch_without_room_now_does_not_keep_a_periodic_job_from_fitting() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context, memory_mb=100)
        nightly = PeriodicConfig(spec="0 3 * * *")
        job = replace(job_of("nightly", 600, type="batch"), periodic=nightly)
        fit = (await DryRun(context).plan_jobs([job], options=WHOLE)).fit
        assert fit.fits
        assert fit.jobs[0].launch_only
        assert fit.jobs[0].groups[0].blocked == 1
        assert fit.groups == []

    with_context(work)


def test_deletion_frees_capacity_and_counts_as_stopped() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context, memory_mb=1000)
        await placed_job(context, job_of("old", 600), [node])
        fit = (await DryRun(context).plan_jobs([], [("default", "old")], WHOLE)).fit
        assert [(each.name, each.stopped) for each in fit.jobs[0].groups] == [("web", 1)]
        [pool] = fit.capacity
        assert pool.free_after.memory_mb > pool.free_before.memory_mb

    with_context(work)


def test_jobs_that_time_does_not_allow_are_counted_and_do_not_fit() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context)
        jobs = [job_of(f"job-{number}", 10) for number in range(3)]
        plans = await DryRun(context).plan_jobs(jobs, options=DryRunOptions(budget_s=0.0))
        assert plans.jobs == []
        assert (plans.fit.fits, plans.fit.not_planned) == (False, 3)

    with_context(work)


def test_plan_does_not_wait_for_other_plans_longer_than_its_own_time() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context)
        dry_run = DryRun(context)
        many = [job_of(f"job-{number}", 10) for number in range(300)]
        first = asyncio.create_task(dry_run.plan_jobs(many))
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="planning other commits"):
            await dry_run.plan_jobs(many[:1], options=DryRunOptions(budget_s=0.001))
        assert len((await first).jobs) == 300
        assert (await dry_run.plan_jobs(many[:1], options=WHOLE)).fit.fits

    with_context(work)


@pytest.mark.parametrize(
    ("group", "fits"),
    [
        (GroupFit("g", placed=3), True),
        (GroupFit("g", blocked=1), False),
        (GroupFit("g", first_blocked=1), False),
        (GroupFit("g", no_node_qualifies=True), False),
    ],
)
def test_group_fits_unless_something_finds_no_node(group: GroupFit, fits: bool) -> None:
    assert group.fits is fits


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_update_that_fits_ends_with_everything_placed_and_one_that_does_not_is_stuck(
    seed: int,
) -> None:
    """The report is made in one go; the scheduler takes one step after the other."""
    rng = random.Random(seed)
    cluster = ListCluster(NOW_NS)
    for number in range(rng.randint(1, 6)):
        node = make_network_node(number, memory_mb=rng.choice([512, 1024, 2048]))
        cluster.nodes[node.id] = node
    old = job_of("api", rng.choice([100, 200, 300]), rng.randint(1, 6), "0")
    run_to_the_end(cluster, replace(old, create_index=10, job_modify_index=10), seed)
    update = UpdateStrategy(max_parallel=rng.randint(1, 3))
    memory_mb, count = rng.choice([100, 200, 300, 500, 900]), rng.randint(1, 8)
    new = job_of("api", memory_mb, count, "1", update=update)
    new = replace(new, version=1, create_index=10, job_modify_index=11)

    view = ImaginedView(cluster, [new])
    decisions = []
    for seen in (new, replace(new, task_groups=[replace(new.task_groups[0], update=None)])):
        with view.imagining(seen):
            outcome = schedule(EVALUATION, view, NOW_NS, seed)
        decisions.append(Decision(outcome.evaluation, outcome.plan or Plan()))
    first, whole = decisions
    [group] = group_fits(new, whole, cluster.allocations_by_job("default", "api"), first)
    all_placed = run_to_the_end(cluster, new, seed)
    assert all_placed or not group.fits
    assert not (all_placed and group.blocked)


EVALUATION = Evaluation(
    id="eval", type="service", job_id="api", triggered_by="job-register", annotate_plan=True
)


def run_to_the_end(cluster: ListCluster, job: Job, seed: int) -> bool:
    """Registers the job and takes every step of its update, each healthy at once; returns whether
    nothing is left without a node."""
    cluster.jobs[job.namespace, job.id, job.version] = job
    cluster.changed()
    for _ in range(60):
        outcome = schedule(EVALUATION, cluster, NOW_NS, seed)
        plan = outcome.plan
        if plan is None or not (plan.stops or plan.placements or plan.updates):
            return not outcome.evaluation.failed_tg_allocs
        cluster.apply(plan)  # type: ignore[arg-type]
        for each in list(cluster.allocs.values()):
            health = AllocDeploymentStatus(healthy=True) if each.deployment_id else None
            ended = each.desired_status != "run"
            status = "complete" if ended else "running"
            cluster.allocs[each.id] = replace(each, client_status=status, deployment_status=health)
        cluster.changed()
    raise AssertionError("the update does not end")
