"""What operators may do to deployments, and when it is refused."""

from __future__ import annotations

import pytest

from orchgit.errors import ConflictError, InvalidInputError, RefusedError
from orchgit.model.base import NS_PER_S, datetime_of_ns, ns_of_datetime
from orchgit.model.deployment import Deployment, DeploymentState, DeploymentStatusUpdate
from orchgit.model.plan import PlanResult
from orchgit.replication.commands.deployments import FailDeployment
from orchgit.replication.commands.jobs import SetJobStability
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.services.context import UseCaseContext
from orchgit.services.deployments import (
    fail_deployment,
    pause_deployment,
    promote_deployment,
    set_deployment_health,
)
from orchgit.services.jobs.register import register_job
from tests.support.factories import make_deployment, make_job
from tests.support.use_cases import with_context


async def deployment_of(
    context: UseCaseContext, job_id: str, version: int = 0, **state: object
) -> Deployment:
    with context.snapshot() as snapshot:
        job = snapshot.jobs.get("default", job_id)
    assert job is not None
    state_of_group = DeploymentState(desired_total=1, **state)  # type: ignore[arg-type]
    deployment = make_deployment(job, task_groups={"web": state_of_group}, job_version=version)
    await context.propose(
        ApplyPlan(
            namespace="default",
            job_id=job_id,
            job_version=version,
            eval_id="",
            result=PlanResult(deployment=deployment),
        )
    )
    return deployment


def test_deployment_is_paused_and_resumed() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        deployment = await deployment_of(context, "web")
        paused = await pause_deployment(context, deployment.id, True)
        with context.snapshot() as snapshot:
            found = snapshot.deployments.get(deployment.id)
        assert found is not None
        assert found.status == "paused"
        assert paused.eval_id == ""
        assert (await pause_deployment(context, deployment.id, False)).eval_id

    with_context(work)


def test_resumed_deployment_has_its_whole_deadline_again() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        soon = datetime_of_ns(context.now_ns() + NS_PER_S)
        deployment = await deployment_of(
            context, "web", progress_deadline_ns=600 * NS_PER_S, require_progress_by=soon
        )
        await pause_deployment(context, deployment.id, True)
        await context.clock.advance(3600)  # type: ignore[attr-defined]
        await pause_deployment(context, deployment.id, False)
        with context.snapshot() as snapshot:
            found = snapshot.deployments.get(deployment.id)
        assert found is not None
        assert (found.status, found.status_description) == ("running", "Deployment is running")
        deadline = found.task_groups["web"].require_progress_by
        assert deadline is not None
        assert ns_of_datetime(deadline) == context.now_ns() + 600 * NS_PER_S

    with_context(work)


def test_failed_deployment_says_that_no_stable_version_exists() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        deployment = await deployment_of(context, "web", auto_revert=True)
        assert (await fail_deployment(context, deployment.id)).reverted_job_version is None
        with context.snapshot() as snapshot:
            found = snapshot.deployments.get(deployment.id)
        assert found is not None
        assert found.status_description.endswith("- no stable job version to auto revert to")

    with_context(work)


def test_failing_a_deployment_does_not_undo_a_concurrent_job_change() -> None:
    async def work(context: UseCaseContext) -> None:
        first = await register_job(context, make_job(id="web"))
        deployment = await deployment_of(context, "web")
        await register_job(context, make_job(id="web", priority=60))
        update = DeploymentStatusUpdate(deployment.id, "failed", "because", context.now_ns())
        with pytest.raises(ConflictError, match="somebody else changed it"):
            await context.propose(
                FailDeployment(
                    update=update,
                    job=make_job(id="web", priority=70),
                    expected_modify_index=first.job_modify_index,
                )
            )
        with context.snapshot() as snapshot:
            job, found = (
                snapshot.jobs.get("default", "web"),
                snapshot.deployments.get(deployment.id),
            )
        assert job is not None
        assert found is not None
        assert (job.priority, found.status) == (60, "running")

    with_context(work)


def test_failed_deployment_stays_failed() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        deployment = await deployment_of(context, "web")
        done = await fail_deployment(context, deployment.id)
        assert done.reverted_job_version is None
        for again in (
            fail_deployment(context, deployment.id),
            pause_deployment(context, deployment.id, True),
            promote_deployment(context, deployment.id),
        ):
            with pytest.raises(RefusedError, match="terminal deployment"):
                await again

    with_context(work)


def test_failure_reverts_to_the_newest_stable_version_with_auto_revert() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web", priority=50))
        await context.propose(
            SetJobStability(namespace="default", job_id="web", version=0, stable=True)
        )
        await register_job(context, make_job(id="web", priority=60))
        await register_job(context, make_job(id="web", priority=70))
        deployment = await deployment_of(context, "web", version=2, auto_revert=True)
        done = await fail_deployment(context, deployment.id)
        with context.snapshot() as snapshot:
            job, found = (
                snapshot.jobs.get("default", "web"),
                snapshot.deployments.get(deployment.id),
            )
        assert done.reverted_job_version == 0
        assert job is not None
        assert (job.version, job.priority) == (3, 50)
        assert found is not None
        assert "rolling back to job version 0" in found.status_description

    with_context(work)


@pytest.mark.parametrize(
    ("state", "refusal"),
    [
        pytest.param({}, "no canaries to promote", id="none"),
        pytest.param({"desired_canaries": 1}, "has 0/1 healthy", id="unhealthy"),
    ],
)
def test_promotion_needs_healthy_canaries(state: dict[str, int], refusal: str) -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        deployment = await deployment_of(context, "web", **state)
        with pytest.raises(RefusedError, match=refusal):
            await promote_deployment(context, deployment.id)

    with_context(work)


def test_health_is_set_only_for_allocations_of_the_deployment() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        deployment = await deployment_of(context, "web")
        with pytest.raises(RefusedError, match="not part of deployment"):
            await set_deployment_health(context, deployment.id, ["stranger"], [])
        with pytest.raises(InvalidInputError, match="at least one"):
            await set_deployment_health(context, deployment.id, [], [])
        with pytest.raises(RefusedError, match="deployment not found"):
            await set_deployment_health(context, "none", ["x"], [])

    with_context(work)
