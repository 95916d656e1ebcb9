"""Dry runs: jobs planned together on one snapshot, changing nothing."""

from __future__ import annotations

from orchgit.model.resources import Resources
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.dry_run import DryRun
from orchgit.services.jobs.register import register_job
from tests.support.factories import make_group, make_job, make_task
from tests.support.use_cases import placed_job, ready_node, with_context


def big_job(job_id: str, memory_mb: int, count: int = 1, priority: int = 50):  # type: ignore[no-untyped-def]
    task = make_task(resources=Resources(cpu=100, memory_mb=memory_mb))
    return make_job(
        id=job_id, priority=priority, task_groups=[make_group(tasks=[task], count=count)]
    )


def test_dry_run_shows_placements_and_changes_nothing() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context)
        with context.snapshot() as snapshot:
            before = snapshot.index
        (plan,) = (await DryRun(context).plan_jobs([make_job(id="web", count=3)])).jobs
        assert plan.annotations is not None
        assert plan.annotations.desired_tg_updates["web"].place == 3
        assert plan.failed_tg_allocs == {}
        assert plan.job_modify_index == 0
        assert plan.diff.type == "Added"
        with context.snapshot() as snapshot:
            assert snapshot.index == before
            assert snapshot.jobs.get("default", "web") is None

    with_context(work)


def test_dry_run_reports_jobs_that_fit_only_alone() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context, memory_mb=1000)
        dry_run = DryRun(context)
        one, two = big_job("one", 600), big_job("two", 600)
        assert not (await dry_run.plan_jobs([one])).jobs[0].failed_tg_allocs
        assert not (await dry_run.plan_jobs([two])).jobs[0].failed_tg_allocs
        first, second = (await dry_run.plan_jobs([one, two])).jobs
        assert not first.failed_tg_allocs
        assert second.failed_tg_allocs["web"].dimension_exhausted == {"memory": 1}

    with_context(work)


def test_job_of_higher_priority_is_planned_first_in_any_order() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context, memory_mb=1000)
        low, high = big_job("low", 600, priority=20), big_job("high", 600, priority=80)
        planned = (await DryRun(context).plan_jobs([low, high])).jobs
        assert [bool(each.failed_tg_allocs) for each in planned] == [True, False]
        assert [each.job.id for each in planned] == ["low", "high"]

    with_context(work)


def test_planned_deletion_frees_resources_for_planned_jobs() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context, memory_mb=100)
        await placed_job(context, make_job(id="old", priority=60), [node])
        new = big_job("new", 80, priority=40)
        dry_run = DryRun(context)
        assert (await dry_run.plan_jobs([new])).jobs[0].failed_tg_allocs
        planned, deleted = (await dry_run.plan_jobs([new], [("default", "old")])).jobs
        assert not planned.failed_tg_allocs
        assert deleted.annotations is not None
        assert deleted.annotations.desired_tg_updates["web"].stop == 1
        assert deleted.diff.type == "Deleted"

    with_context(work)


def test_dry_run_of_the_registered_specification_shows_no_change() -> None:
    async def work(context: UseCaseContext) -> None:
        node = await ready_node(context)
        job = make_job(id="web")
        await placed_job(context, job, [node])
        (plan,) = (await DryRun(context).plan_jobs([job])).jobs
        assert plan.annotations is not None
        assert plan.annotations.desired_tg_updates["web"].ignore == 1
        assert plan.diff.type == "None"

    with_context(work)


def test_dry_run_sees_jobs_registered_since_the_last_one() -> None:
    async def work(context: UseCaseContext) -> None:
        await ready_node(context)
        dry_run, job = DryRun(context), make_job(id="web")
        await dry_run.plan_jobs([job])
        await register_job(context, job)
        (plan,) = (await dry_run.plan_jobs([make_job(id="web", priority=70)])).jobs
        assert plan.job.version == 1
        assert plan.job_modify_index > 0
        assert plan.diff.type == "Edited"

    with_context(work)
