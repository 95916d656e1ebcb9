"""Registering, stopping, reverting and scaling jobs, over a real log and store."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchgit.errors import InvalidInputError, RefusedError, ValidationError
from orchgit.model.group import ScalingPolicy
from orchgit.model.job import PeriodicConfig
from orchgit.model.node import Namespace
from orchgit.model.operator import SchedulerConfig
from orchgit.replication.commands.settings import UpsertNamespaces
from orchgit.services.cluster.scheduler_config import set_scheduler_config
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.admission import JobSettings
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.evaluate import evaluate_job
from orchgit.services.jobs.force_periodic import periodic_force
from orchgit.services.jobs.register import RegisterOptions, register_job
from orchgit.services.jobs.revert import revert_job
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.support.factories import make_batch_job, make_group, make_job
from tests.support.use_cases import with_context


def test_registered_job_has_one_pending_evaluation() -> None:
    async def work(context: UseCaseContext) -> None:
        done = await register_job(context, make_job(id="web"))
        with context.snapshot() as snapshot:
            job, evaluation = (
                snapshot.jobs.get("default", "web"),
                snapshot.evaluations.get(done.eval_id),
            )
        assert job is not None
        assert evaluation is not None
        assert (job.version, job.job_modify_index) == (0, done.job_modify_index)
        assert evaluation.status == "pending"
        assert evaluation.job_modify_index == done.job_modify_index
        assert evaluation.create_index == done.eval_create_index == done.index

    with_context(work)


def test_namespace_and_operator_settings_are_checked_at_registration() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        with pytest.raises(ValidationError, match="nonexistent namespace"):
            await register_job(context, make_job(id="web", namespace="apps"))
        await context.propose(UpsertNamespaces(namespaces=[Namespace("apps")]))
        await register_job(context, make_job(id="web", namespace="apps"))
        await set_scheduler_config(context, SchedulerConfig(reject_job_registration=True))
        with pytest.raises(RefusedError, match="disabled by an operator"):
            await register_job(context, make_job(id="web"))

    with_context(work)


def test_enforced_index_of_an_empty_namespace_is_of_the_default_one() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        with pytest.raises(RefusedError, match="job already exists"):
            await register_job(
                context, make_job(id="web", namespace=""), RegisterOptions(enforce_index=0)
            )

    with_context(work)


def test_same_specification_again_makes_no_version() -> None:
    async def work(context: UseCaseContext) -> None:
        first = await register_job(context, make_job(id="web", task_groups=[make_group()]))
        again = await register_job(context, make_job(id="web", task_groups=[make_group()]))
        assert again.job_modify_index == first.job_modify_index
        with context.snapshot() as snapshot:
            assert len(snapshot.job_versions.of_job("default", "web")) == 1

    with_context(work)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        pytest.param(0, "job already exists", id="must-be-new"),
        pytest.param(99, "conflicting job modify index", id="changed-since"),
    ],
)
def test_wrong_enforced_index_is_refused_with_nomads_message(expected: int, words: str) -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        options = RegisterOptions(enforce_index=expected)
        with pytest.raises(RefusedError, match=f"Enforcing job modify index {expected}.*{words}"):
            await register_job(context, make_job(id="web", priority=60), options)

    with_context(work)


def test_enforced_index_of_an_unknown_job_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        with pytest.raises(RefusedError, match="job does not exist"):
            await register_job(context, make_job(), RegisterOptions(enforce_index=5))

    with_context(work)


def test_change_of_a_jobs_type_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        with pytest.raises(RefusedError, match='from type "service" to "batch"'):
            await register_job(context, make_batch_job(id="web"))

    with_context(work)


def test_change_of_a_job_to_periodic_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_batch_job(id="b"))
        with pytest.raises(RefusedError, match="non-periodic job to being periodic"):
            await register_job(
                context, make_batch_job(id="b", periodic=PeriodicConfig(spec="* * * * *"))
            )

    with_context(work)


def test_every_problem_is_reported_at_once() -> None:
    async def work(context: UseCaseContext) -> None:
        job = make_job(id="web", namespace="nowhere", node_pool="nothing")
        with pytest.raises(ValidationError) as caught:
            await register_job(context, job)
        text = "\n".join(caught.value.problems)
        assert 'nonexistent namespace "nowhere"' in text
        assert 'nonexistent node pool "nothing"' in text

    with_context(work)


def test_registration_disabled_by_an_operator_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await set_scheduler_config(context, SchedulerConfig(reject_job_registration=True))
        with pytest.raises(RefusedError, match="disabled by an operator"):
            await register_job(context, make_job())

    with_context(work)


def test_periodic_parent_has_no_evaluation_and_its_forced_launch_has() -> None:
    async def work(context: UseCaseContext) -> None:
        parent = make_batch_job(id="p", periodic=PeriodicConfig(spec="0 0 1 1 *"))
        assert (await register_job(context, parent)).eval_id == ""
        done = await periodic_force(context, "default", "p")
        with context.snapshot() as snapshot:
            (child,) = snapshot.jobs.of_parent("default", "p")
            launch = snapshot.periodic_launches.get("default", "p")
        assert child.id == f"p/periodic-{context.now_ns() // 10**9}"
        assert child.periodic is None
        assert launch == context.now_ns()
        assert done.eval_id

    with_context(work)


def test_stopped_job_is_kept_and_purged_job_is_deleted() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        stopped = await deregister_job(context, "default", "web", DeregisterOptions())
        with context.snapshot() as snapshot:
            job = snapshot.jobs.get("default", "web")
        assert job is not None
        assert job.stop
        assert stopped.eval_id
        await deregister_job(context, "default", "web", DeregisterOptions(purge=True))
        with context.snapshot() as snapshot:
            assert snapshot.jobs.get("default", "web") is None

    with_context(work)


def test_stopping_an_unknown_job_changes_nothing() -> None:
    async def work(context: UseCaseContext) -> None:
        with context.snapshot() as snapshot:
            before = snapshot.index
        done = await deregister_job(context, "default", "none", DeregisterOptions())
        assert (done.index, done.eval_id) == (before, "")

    with_context(work)


def test_revert_registers_the_earlier_specification_as_a_new_version() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web", priority=50))
        await register_job(context, make_job(id="web", priority=60))
        await revert_job(context, "default", "web", 0)
        with context.snapshot() as snapshot:
            job = snapshot.jobs.get("default", "web")
        assert job is not None
        assert (job.version, job.priority) == (2, 50)

    with_context(work)


def test_revert_to_current_or_unknown_version_or_from_a_wrong_one_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        with pytest.raises(RefusedError, match="can't revert to current version"):
            await revert_job(context, "default", "web", 0)
        with pytest.raises(RefusedError, match="enforcing version 7"):
            await revert_job(context, "default", "web", 0, enforce_version=7)
        with pytest.raises(RefusedError, match="version 9 not found"):
            await revert_job(context, "default", "web", 9)

    with_context(work)


def test_scaling_sets_one_count_within_its_bounds() -> None:
    async def work(context: UseCaseContext) -> None:
        scaling = ScalingPolicy(min=1, max=3)
        group = replace(make_group(name="g"), scaling=scaling)
        await register_job(context, make_job(id="web", task_groups=[group]))
        done = await scale_job(context, "default", "web", ScaleRequest("g", 3))
        with context.snapshot() as snapshot:
            job = snapshot.jobs.get("default", "web")
        assert job is not None
        assert job.task_groups[0].count == 3
        assert done.eval_id
        with pytest.raises(InvalidInputError, match="greater than scaling policy maximum: 4 > 3"):
            await scale_job(context, "default", "web", ScaleRequest("g", 4))
        with pytest.raises(InvalidInputError, match="less than scaling policy minimum: 0 < 1"):
            await scale_job(context, "default", "web", ScaleRequest("g", 0))

    with_context(work)


def test_scaling_that_expects_another_version_of_the_job_changes_nothing() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web", task_groups=[make_group(name="g")]))
        with context.snapshot() as snapshot:
            before = snapshot.jobs.get("default", "web")
        assert before is not None
        expected = before.job_modify_index
        other = ScaleRequest("g", 3, expected_modify_index=expected + 1)
        with pytest.raises(RefusedError, match=f"conflicting job modify index: {expected}"):
            await scale_job(context, "default", "web", other)
        without_count = ScaleRequest("g", expected_modify_index=expected + 1)
        with pytest.raises(RefusedError, match="conflicting job modify index"):
            await scale_job(context, "default", "web", without_count)
        with context.snapshot() as snapshot:
            assert snapshot.jobs.get("default", "web") == before
        same = ScaleRequest("g", 3, expected_modify_index=expected)
        assert (await scale_job(context, "default", "web", same)).eval_id

    with_context(work)


def test_job_of_more_allocations_than_job_max_count_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        limited = UseCaseContext(context.state, context.clock, context.ids, JobSettings(10))
        groups = [make_group(name="a", count=6), make_group(name="b", count=5)]
        with pytest.raises(ValidationError, match="configured job_max_count: 11 > 10"):
            await register_job(limited, make_job(id="web", task_groups=groups))
        groups[1] = make_group(name="b", count=4)
        await register_job(limited, make_job(id="web", task_groups=groups))
        with pytest.raises(InvalidInputError, match="configured job_max_count: 11 > 10"):
            await scale_job(limited, "default", "web", ScaleRequest("a", 7))
        await scale_job(limited, "default", "web", ScaleRequest("a", 5))
        with pytest.raises(ValidationError, match="job_max_count: 50001 > 50000"):
            await register_job(context, make_job(task_groups=[make_group(count=50_001)]))
        unlimited = UseCaseContext(context.state, context.clock, context.ids, JobSettings(0))
        await register_job(unlimited, make_job(task_groups=[make_group(count=60_000)]))

    with_context(work)


@pytest.mark.parametrize(("priority", "accepted"), [(100, True), (150, True), (151, False)])
def test_job_may_have_a_priority_up_to_the_configured_one(priority: int, accepted: bool) -> None:
    async def work(context: UseCaseContext) -> None:
        limits = JobSettings(max_priority=150)
        limited = UseCaseContext(context.state, context.clock, context.ids, limits)
        job = make_job(id="web", priority=priority)
        if accepted:
            await register_job(limited, job)
        else:
            with pytest.raises(ValidationError, match=r"must be between \[1, 150\]"):
                await register_job(limited, job)

    with_context(work)


def test_job_that_keeps_its_counts_is_held_to_job_max_count_too() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web", task_groups=[make_group(name="a", count=6)]))
        limited = UseCaseContext(context.state, context.clock, context.ids, JobSettings(5))
        fewer = make_job(id="web", task_groups=[make_group(name="a", count=1)])
        with pytest.raises(ValidationError, match="job_max_count: 6 > 5"):
            await register_job(limited, fewer, RegisterOptions(preserve_counts=True))
        await register_job(limited, fewer)

    with_context(work)


def test_launch_of_a_job_that_is_older_than_job_max_count_is_refused() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(
            context,
            make_batch_job(
                id="cron",
                periodic=PeriodicConfig(spec="@daily"),
                task_groups=[make_group(count=6)],
            ),
        )
        limited = UseCaseContext(context.state, context.clock, context.ids, JobSettings(5))
        with pytest.raises(InvalidInputError, match="job_max_count: 6 > 5"):
            await periodic_force(limited, "default", "cron")

    with_context(work)


def test_scaling_with_an_error_event_changes_nothing() -> None:
    async def work(context: UseCaseContext) -> None:
        registered = await register_job(context, make_job(id="web"))
        done = await scale_job(context, "default", "web", ScaleRequest("web", None, error=True))
        assert done.eval_id == ""
        assert done.job_modify_index == registered.job_modify_index

    with_context(work)


def test_preserved_counts_are_those_of_the_registered_job() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web", count=5))
        options = RegisterOptions(preserve_counts=True)
        await register_job(context, make_job(id="web", count=1, priority=60), options)
        with context.snapshot() as snapshot:
            job = snapshot.jobs.get("default", "web")
        assert job is not None
        assert (job.task_groups[0].count, job.priority) == (5, 60)

    with_context(work)


def test_forced_evaluation_makes_no_new_version() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        done = await evaluate_job(context, "default", "web")
        with context.snapshot() as snapshot:
            found = snapshot.evaluations.of_job("default", "web")
            job = snapshot.jobs.get("default", "web")
        assert done.eval_id in {each.id for each in found}
        assert len(found) == 2
        assert job is not None
        assert job.version == 0

    with_context(work)
