"""How a commit is doing, from evaluations, deployments and allocations."""

import pytest
from msgspec.structs import replace

from orchgit.gitops.rollout_rules import JobProgress, JobView, judge_job, judge_rollout
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.job import ParameterizedJobConfig, PeriodicConfig
from orchgit.model.rollout import RolloutJob
from tests.support.factories import make_batch_job, make_job, make_system_job

PATIENCE_NS = 600_000_000_000
CHANGE = RolloutJob(job_id="web", action="update", job_version=2, eval_id="e1")
DONE = Evaluation(id="e1", status="complete")


def alloc(client: str, version: int = 2, **fields: object) -> Allocation:
    return Allocation(id=client, client_status=client, job_version=version, **fields)  # type: ignore[arg-type]


def view(job=None, evaluations=(DONE,), deployment=None, allocations=()):  # type: ignore[no-untyped-def]
    job = job if job is not None else make_batch_job(id="web", version=2)
    return JobView(job, evaluations, deployment, allocations)


def judge(seen: JobView, change: RolloutJob = CHANGE, after_ns: int = 0):  # type: ignore[no-untyped-def]
    return judge_job(change, seen, 0, after_ns, PATIENCE_NS)


def deployment(status: str, healthy: int = 0, total: int = 2, **fields: object) -> Deployment:
    state = DeploymentState(desired_total=total, healthy_allocs=healthy, **fields)  # type: ignore[arg-type]
    return Deployment(id="d1", status=status, status_description="why", task_groups={"g": state})


def test_waits_for_the_scheduler() -> None:
    assert judge(view(evaluations=())).status == "progressing"
    assert judge(view(evaluations=(Evaluation(id="e1"),))).description == "waits for the scheduler"


def test_batch_running_or_complete_is_healthy() -> None:
    assert judge(view(allocations=[alloc("pending")])).status == "progressing"
    assert judge(view(allocations=[alloc("running")])).status == "healthy"
    assert judge(view(allocations=[alloc("complete")])).description == "1 complete"


def test_old_versions_do_not_count() -> None:
    assert judge(view(allocations=[alloc("running", version=1)])).description == "0/1 running"


def test_batch_failed_for_good() -> None:
    assert judge(view(allocations=[alloc("failed")])).status == "failed"


def test_a_failed_allocation_that_is_tried_again_is_no_verdict() -> None:
    waiting = alloc("failed", followup_eval_id="e2")
    assert judge(view(allocations=[waiting])).status == "progressing"
    retried = [alloc("failed", next_allocation="x"), alloc("running")]
    assert judge(view(allocations=retried)).status == "healthy"
    pending = (DONE, Evaluation(id="e2", status="pending"))
    assert judge(view(evaluations=pending, allocations=[alloc("failed")])).status == "progressing"


def test_system_jobs_are_healthy_on_the_nodes_they_got() -> None:
    job = make_system_job(id="web", version=2)
    both = [alloc("running"), alloc("running")]
    assert judge(view(job, allocations=both)).description == "2 running"
    assert judge(view(job)).description == "nothing to run"
    assert (
        judge(view(job, allocations=[alloc("running"), alloc("pending")])).status == "progressing"
    )


def test_no_place_is_patient_then_failed() -> None:
    metric = AllocMetric(nodes_evaluated=3, dimension_exhausted={"memory": 3})
    blocked = Evaluation(
        id="e2", status="blocked", queued_allocations={"g": 2}, failed_tg_allocs={"g": metric}
    )
    seen = view(evaluations=(DONE, blocked))
    assert judge(seen).description == "2 not placed (memory)"
    assert judge(seen).status == "progressing"
    assert judge(seen, after_ns=PATIENCE_NS + 1).status == "failed"


def test_a_failed_evaluation_fails_the_job() -> None:
    failed = Evaluation(id="e1", status="failed", status_description="maximum attempts")
    assert judge(view(evaluations=(failed,))).description == "maximum attempts"
    followed = (failed, Evaluation(id="e2", status="blocked"))
    assert judge(view(evaluations=followed)).status == "progressing"


@pytest.mark.parametrize(
    ("status", "wanted"),
    [("successful", "healthy"), ("failed", "failed"), ("cancelled", "superseded")],
)
def test_a_deployment_decides(status: str, wanted: str) -> None:
    job = make_job(id="web", version=2)
    verdict = judge(view(job, deployment=deployment(status)))
    assert (verdict.status, verdict.deployment_id) == (wanted, "d1")


def test_a_running_deployment_shows_its_counts() -> None:
    job = make_job(id="web", version=2)
    running = deployment("running", healthy=1, unhealthy_allocs=1)
    assert judge(view(job, deployment=running)).description == "1/2 healthy, 1 unhealthy"
    canary = deployment("running", healthy=1, desired_canaries=1)
    assert "canaries wait for promotion" in judge(view(job, deployment=canary)).description


def test_auto_revert_is_told_from_failure_by_the_version_that_runs() -> None:
    job = make_job(id="web", version=3)
    verdict = judge(view(job, deployment=deployment("failed")))
    assert verdict.status is JobProgress.REVERTED


def test_a_newer_version_supersedes() -> None:
    assert judge(view(make_batch_job(id="web", version=3))).status == "superseded"
    stopped = replace(make_batch_job(id="web", version=3), stop=True)
    assert judge(view(stopped)).status == "superseded"


def test_parents_are_healthy_at_once() -> None:
    cron = make_batch_job(id="web", version=2, periodic=PeriodicConfig())
    template = make_batch_job(id="web", version=2, parameterized_job=ParameterizedJobConfig())
    assert judge(view(cron, ())).status == judge(view(template, ())).status == "healthy"


def test_deletion() -> None:
    change = replace(CHANGE, action="delete")
    stopped = replace(make_job(id="web", version=2), stop=True)
    running = alloc("running", desired_status="stop")
    assert judge(view(stopped, allocations=[running]), change).description == "1 still to stop"
    assert judge(view(stopped, allocations=[alloc("complete")]), change).status == "healthy"
    lost = alloc("unknown", desired_status="stop")
    assert judge(view(stopped, allocations=[lost]), change).status == "healthy"
    assert judge(JobView(None, (), None, ()), change).status == "healthy"
    assert judge(view(make_job(id="web", version=4)), change).status == "superseded"


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        (["healthy", "healthy"], "healthy"),
        (["healthy", "progressing", "failed"], "progressing"),
        (["applied"], "progressing"),
        (["healthy", "failed"], "failed"),
        (["healthy", "reverted"], "failed"),
        (["healthy", "superseded"], "degraded"),
        ([], "healthy"),
    ],
)
def test_the_rollout_from_its_jobs(statuses: list[str], wanted: str) -> None:
    jobs = [RolloutJob(job_id=f"j{n}", status=status) for n, status in enumerate(statuses)]
    assert judge_rollout(jobs)[0] == wanted
