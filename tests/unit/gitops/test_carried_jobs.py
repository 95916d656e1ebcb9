"""Which jobs a rollout takes over from the rollout of the same commit that it replaces."""

from __future__ import annotations

from orchgit.gitops.commits.actions import Action, Actions
from orchgit.gitops.commits.log_entry import carried_jobs
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.gitops.rollouts.waiting import EVERY_JOB_BEFORE
from orchgit.gitops.stages.stages import Stages
from orchgit.model.rollout import Commit, JobAction, JobWait, Rollout, RolloutJob
from orchgit.model.source import Source

ON_DB = JobWait(job_id="db")


def plan_of(*names: str, stages: Stages | None = None) -> CommitPlan:
    changes = tuple(Action(JobAction.UPDATE, ("default", name), None, None) for name in names)
    return CommitPlan(Source(name="demo"), Actions(changes, ()), (), (), stages=stages or Stages())


def previous(*jobs: RolloutJob) -> Rollout:
    return Rollout(id="r1", commit=Commit(id="c1"), jobs=list(jobs))


def job(name: str, status: str, stage: int = 0, *waits: JobWait) -> RolloutJob:
    return RolloutJob(job_id=name, status=status, stage=stage, waits_for=list(waits))


def carried(plan: CommitPlan, rollout: Rollout | None, commit: str = "c1") -> list[tuple[str, int]]:
    return [(each.job_id, each.stage) for each in carried_jobs(plan, rollout, commit)]


def test_waiting_jobs_of_the_same_commit_come_after_the_plan() -> None:
    rollout = previous(
        job("db", "progressing"), job("web", "waiting", 1, ON_DB), job("edge", "waiting", 2)
    )
    assert carried(plan_of("other"), rollout) == [("web", 1), ("edge", 2)]
    staged = plan_of("a", "b", stages=Stages(numbers={("default", "b"): 1}))
    assert carried(staged, rollout) == [("web", 2), ("edge", 3)]
    assert carried(plan_of("web"), rollout) == [("edge", 1)]


def test_nothing_is_carried_to_another_commit_or_without_a_rollout() -> None:
    rollout = previous(job("web", "waiting", 1, ON_DB))
    assert carried(plan_of("other"), rollout, "c2") == []
    assert carried(plan_of("other"), None) == []


def test_skipped_jobs_go_on_only_if_what_failed_or_what_they_wait_for_runs_again() -> None:
    rollout = previous(job("migrate", "failed"), job("web", "skipped", 1, ON_DB))
    assert carried(plan_of("other"), rollout) == []
    assert carried(plan_of("migrate"), rollout) == [("web", 1)]
    assert carried(plan_of("db"), rollout) == [("web", 1)]
    (web,) = carried_jobs(plan_of("migrate"), rollout, "c1")
    assert (web.status, web.description) == ("waiting", "")


def test_wait_for_every_job_before_names_those_that_have_not_ended() -> None:
    rollout = previous(
        job("db", "healthy"),
        job("api", "progressing"),
        job("smoke", "waiting", 1, EVERY_JOB_BEFORE),
    )
    (smoke,) = carried_jobs(plan_of("other"), rollout, "c1")
    assert [each.job_id for each in smoke.waits_for] == ["*", "api"]
