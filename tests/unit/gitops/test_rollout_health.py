"""The health of a rollout, judged from evaluations, deployments and allocations."""

import pytest
from msgspec.structs import replace

from orchgit.gitops.rollouts.health import Deadline, JobProgress, JobView, judge_job, judge_rollout
from orchgit.model.allocation import Allocation
from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.job import Job, ParameterizedJobConfig, PeriodicConfig
from orchgit.model.rollout import RolloutJob
from tests.support.factories import (
    make_batch_job,
    make_group,
    make_job,
    make_system_job,
    make_task,
)

PATIENCE_NS = 600_000_000_000
CHANGE = RolloutJob(job_id="web", action="update", job_version=2, eval_id="e1")
DONE = Evaluation(id="e1", status="complete")


def alloc(client: str, version: int = 2, **fields: object) -> Allocation:
    return Allocation(id=client, client_status=client, job_version=version, **fields)  # type: ignore[arg-type]


def view(job=None, evaluations=(DONE,), deployment=None, allocations=(), replaced_by=""):  # type: ignore[no-untyped-def]
    job = job if job is not None else make_batch_job(id="web", version=2)
    return JobView(job, evaluations, deployment, allocations, replaced_by)


def judge(seen: JobView, change: RolloutJob = CHANGE, after_ns: int = 0, limit_ns: int = 0):  # type: ignore[no-untyped-def]
    return judge_job(change, seen, 0, after_ns, Deadline(PATIENCE_NS, limit_ns))


def deployment(status: str, healthy: int = 0, total: int = 2, **fields: object) -> Deployment:
    state = DeploymentState(desired_total=total, healthy_allocs=healthy, **fields)  # type: ignore[arg-type]
    return Deployment(id="d1", status=status, status_description="why", task_groups={"g": state})


def test_job_with_a_pending_evaluation_is_progressing() -> None:
    assert judge(view(evaluations=())).status == "progressing"
    assert judge(view(evaluations=(Evaluation(id="e1"),))).description == "scheduling..."


def test_batch_running_or_complete_is_healthy() -> None:
    assert judge(view(allocations=[alloc("pending")])).status == "progressing"
    assert judge(view(allocations=[alloc("running")])).status == "healthy"
    assert judge(view(allocations=[alloc("complete")])).description == "1 complete"


def test_work_that_must_be_complete_is_not_when_its_evaluation_placed_nothing() -> None:
    hook = replace(CHANGE, must_complete=True)
    dead = make_batch_job(id="web", version=2, status="dead")
    found = judge(view(dead), hook)
    assert (found.status, found.description) == ("progressing", "0/1 complete")
    assert judge(view(dead), hook, PATIENCE_NS + 1).status == "failed"
    nothing = replace(dead, task_groups=[replace(dead.task_groups[0], count=0)])
    assert judge(view(nothing), hook).status == "healthy"
    everywhere = replace(make_system_job(id="web", version=2, status="dead"), type="sysbatch")
    assert judge(view(everywhere), hook).description == "0/1 complete"
    assert judge(view(everywhere, allocations=[alloc("complete")]), hook).status == "healthy"


def test_unchanged_work_whose_allocations_were_collected_is_complete_by_its_summary() -> None:
    hook = replace(CHANGE, action="unchanged", must_complete=True)
    dead = make_batch_job(id="web", version=2, status="dead")
    assert judge(JobView(dead, (), None, (), completed=1), hook).status == "healthy"
    assert judge(JobView(dead, (), None, ()), hook).status == "progressing"


def test_allocations_of_old_versions_do_not_count() -> None:
    assert judge(view(allocations=[alloc("running", version=1)])).description == "0/1 running"


def test_batch_job_whose_allocation_failed_for_good_has_failed() -> None:
    assert judge(view(allocations=[alloc("failed")])).status == "failed"


def test_job_with_a_failed_allocation_that_is_rescheduled_is_progressing() -> None:
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


def test_unplaced_job_is_progressing_until_its_deadline() -> None:
    metric = AllocMetric(nodes_evaluated=3, dimension_exhausted={"memory": 3})
    blocked = Evaluation(
        id="e2", status="blocked", queued_allocations={"g": 2}, failed_tg_allocs={"g": metric}
    )
    seen = view(evaluations=(DONE, blocked))
    assert judge(seen).description == "2 not placed (memory exhausted on 3 nodes)"
    assert judge(seen).status == "progressing"
    assert judge(seen, after_ns=PATIENCE_NS + 1).status == "failed"


def test_a_failed_evaluation_fails_the_job() -> None:
    failed = Evaluation(id="e1", status="failed", status_description="maximum attempts")
    assert judge(view(evaluations=(failed,))).description == "maximum attempts"
    followed = (failed, Evaluation(id="e2", status="blocked"))
    assert judge(view(evaluations=followed)).status == "progressing"


@pytest.mark.parametrize(
    ("status", "wanted"),
    [("successful", "healthy"), ("failed", "failed"), ("cancelled", "overridden")],
)
def test_ended_deployment_decides_the_status_of_its_job(status: str, wanted: str) -> None:
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


@pytest.mark.parametrize("stop", [False, True])
def test_job_that_a_newer_commit_changed_is_superseded(stop: bool) -> None:
    newer = replace(make_batch_job(id="web", version=3), stop=stop)
    verdict = judge(view(newer, replaced_by="0123456789abcdef"))
    assert (verdict.status, verdict.description) == ("superseded", "replaced by commit 01234567")


@pytest.mark.parametrize(
    ("newer", "why"),
    [
        (make_batch_job(id="web", version=3), "changed by hand to version 3"),
        (replace(make_batch_job(id="web", version=3), stop=True), "stopped by hand"),
        (replace(make_batch_job(id="web", version=2), stop=True), "stopped by hand"),
    ],
)
def test_job_that_was_changed_by_hand_is_overridden(newer: Job, why: str) -> None:
    verdict = judge(view(newer))
    assert (verdict.status, verdict.description) == ("overridden", why)


def test_cancelled_deployment_of_a_job_that_a_newer_commit_changed_is_superseded() -> None:
    seen = view(deployment=deployment("cancelled"), replaced_by="0123456789abcdef")
    assert judge(seen).status == "superseded"


def test_parents_are_healthy_at_once() -> None:
    cron = make_batch_job(id="web", version=2, periodic=PeriodicConfig())
    template = make_batch_job(id="web", version=2, parameterized_job=ParameterizedJobConfig())
    assert judge(view(cron, ())).status == judge(view(template, ())).status == "healthy"


def test_deleted_job_is_healthy_when_its_allocations_have_ended() -> None:
    change = replace(CHANGE, action="delete")
    stopped = replace(make_job(id="web", version=2), stop=True)
    running = alloc("running", desired_status="stop")
    assert (
        judge(view(stopped, allocations=[running]), change).description
        == "stopping 1 allocation..."
    )
    assert judge(view(stopped, allocations=[alloc("complete")]), change).status == "healthy"
    lost = alloc("unknown", desired_status="stop")
    assert judge(view(stopped, allocations=[lost]), change).status == "healthy"
    assert judge(JobView(None, (), None, ()), change).status == "healthy"
    assert judge(view(make_job(id="web", version=4)), change).status == "overridden"
    again = view(make_job(id="web", version=4), replaced_by="0123456789abcdef")
    assert judge(again, change).status == "superseded"


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        (["healthy", "healthy"], "healthy"),
        (["healthy", "progressing", "failed"], "progressing"),
        (["applied"], "progressing"),
        (["healthy", "failed"], "failed"),
        (["healthy", "reverted"], "failed"),
        (["healthy", "superseded"], "superseded"),
        (["healthy", "overridden"], "degraded"),
        (["superseded", "overridden"], "degraded"),
        (["superseded", "failed"], "failed"),
        ([], "healthy"),
    ],
)
def test_status_of_a_rollout_follows_from_its_jobs(statuses: list[str], wanted: str) -> None:
    jobs = [RolloutJob(job_id=f"j{n}", status=status) for n, status in enumerate(statuses)]
    assert judge_rollout(jobs)[0] == wanted


SECOND_NS = 1_000_000_000
BLOCKED = Evaluation(
    id="e2",
    status="blocked",
    queued_allocations={"g": 2},
    failed_tg_allocs={
        "g": AllocMetric(nodes_evaluated=3, constraint_filtered={"missing drivers": 3})
    },
)


def docker_job() -> Job:
    task = make_task(driver="docker")
    return make_job(id="web", version=2, task_groups=[make_group(name="g", tasks=[task])])


def test_unplaceable_deployment_fails_at_the_deadline_with_the_reason() -> None:
    seen = view(docker_job(), (DONE, BLOCKED), deployment("running"))
    why = "0/2 healthy, 2 not placed (missing driver docker on 3 nodes)"
    assert judge(seen).description == why
    early = judge(seen, after_ns=PATIENCE_NS + 60 * SECOND_NS)
    assert early.status == "progressing", "a deployment's own verdict comes first"
    late = judge(seen, after_ns=PATIENCE_NS + 61 * SECOND_NS)
    assert (late.status, late.description) == ("failed", f"no progress: {why}")


def test_unplaced_are_counted_where_the_evaluation_queues_nothing() -> None:
    metric = AllocMetric(nodes_evaluated=1, coalesced_failures=4, dimension_exhausted={"cpu": 1})
    blocked = Evaluation(id="e2", status="blocked", failed_tg_allocs={"g": metric})
    assert judge(view(evaluations=(DONE, blocked))).description == (
        "5 not placed (cpu exhausted on 1 node)"
    )


def test_deadline_of_a_deployment_is_at_least_that_of_its_slowest_group() -> None:
    slow = deployment("running", progress_deadline_ns=2 * PATIENCE_NS)
    seen = view(docker_job(), (DONE, BLOCKED), slow)
    assert judge(seen, after_ns=2 * PATIENCE_NS).status == "progressing"
    assert judge(seen, after_ns=2 * PATIENCE_NS + 61 * SECOND_NS).status == "failed"


def test_source_with_a_rollout_deadline_overrules_the_jobs() -> None:
    slow = deployment("running", progress_deadline_ns=2 * PATIENCE_NS)
    seen = view(docker_job(), (DONE, BLOCKED), slow)
    assert judge(seen, after_ns=21 * SECOND_NS, limit_ns=20 * SECOND_NS).status == "failed"
    assert judge(seen, after_ns=19 * SECOND_NS, limit_ns=20 * SECOND_NS).status == "progressing"


def test_progress_of_a_deployment_begins_its_deadline_again() -> None:
    """`require_progress_by` moves with each allocation that becomes healthy."""
    moved = datetime_of_ns(PATIENCE_NS + 500 * SECOND_NS)
    seen = view(
        docker_job(),
        deployment=deployment(
            "running", 1, progress_deadline_ns=PATIENCE_NS, require_progress_by=moved
        ),
    )
    assert judge(seen, after_ns=PATIENCE_NS + 200 * SECOND_NS).status == "progressing"
    assert judge(seen, after_ns=PATIENCE_NS + 561 * SECOND_NS).status == "failed"


def test_deployment_that_waits_for_a_person_has_no_deadline() -> None:
    healthy = deployment("running", healthy=1, desired_canaries=1)
    for waiting in (deployment("paused"), healthy):
        assert judge(view(docker_job(), deployment=waiting), after_ns=1 << 60).status == (
            "progressing"
        )
    sick = deployment("running", healthy=0, desired_canaries=1)
    assert judge(view(docker_job(), deployment=sick), after_ns=1 << 60).status == "failed"


def test_job_that_is_never_scheduled_or_stopped_fails_at_the_deadline() -> None:
    assert judge(view(evaluations=()), after_ns=PATIENCE_NS + 1).status == "failed"
    gone = replace(CHANGE, action="delete")
    running = JobView(None, (), None, [alloc("running")])
    assert judge(running, gone).status == "progressing"
    late = judge(running, gone, after_ns=PATIENCE_NS + 1)
    assert (late.status, late.description) == ("failed", "stopping 1 allocation...")


def test_failed_rollout_says_which_job_failed_and_why() -> None:
    jobs = [
        RolloutJob(job_id="web", status="failed", description="no progress: 2 not placed"),
        RolloutJob(job_id="api", status="healthy", description="1 healthy"),
    ]
    assert judge_rollout(jobs) == ("failed", "failed: web (no progress: 2 not placed)")
