"""When a later stage of a rollout opens, and what ends the waiting."""

from __future__ import annotations

from orchgit.gitops.rollouts.health import JobProgress, JobVerdict, judge_rollout
from orchgit.gitops.rollouts.waiting import (
    EVERY_JOB_BEFORE,
    StageVerdict,
    judge_waiting,
    unapplied_jobs,
)
from orchgit.model.rollout import JobWait, Rollout, RolloutJob


def job(
    name: str, status: str, stage: int = 0, waits: tuple[JobWait, ...] = (), **more: bool
) -> RolloutJob:
    return RolloutJob(job_id=name, status=status, stage=stage, waits_for=list(waits), **more)


def on(name: str, condition: str = "healthy") -> JobWait:
    return JobWait(job_id=name, condition=condition)


def registered(status: JobProgress, why: str = ""):  # type: ignore[no-untyped-def]
    return lambda wait: JobVerdict(status, why)


def judged(
    *jobs: RolloutJob, outside: JobProgress = JobProgress.PROGRESSING, **more: str
) -> StageVerdict:
    return judge_waiting(jobs, registered(outside, "2 failed"), **more)


def test_rollout_of_one_stage_stays_as_it_is() -> None:
    jobs = [job("db", "progressing")]
    assert judged(*jobs) == StageVerdict(jobs)


def test_stage_opens_when_each_of_its_jobs_may_go_on() -> None:
    web = job("web", "waiting", 1, (on("db"), on("load", "complete")))
    edge = job("edge", "waiting", 2, (on("web"),))
    load = job("load", "progressing", must_complete=True)
    found = judged(job("db", "healthy"), load, web, edge)
    assert found.open_stage is None
    assert found.jobs[2].description == "waits for load (complete)"
    assert found.jobs[3].description == "waits for web (healthy)"
    load.status = "healthy"
    assert judged(job("db", "healthy"), load, web, edge).open_stage == 1


def test_registered_is_met_as_soon_as_the_stage_before_is_applied() -> None:
    web = job("web", "waiting", 1, (on("db", "registered"),))
    assert judged(job("db", "applied"), web).open_stage == 1


def test_stage_waits_for_all_of_its_jobs() -> None:
    one = job("one", "waiting", 1, (on("db"),))
    two = job("two", "waiting", 1, (on("cache"),))
    found = judged(job("db", "healthy"), job("cache", "progressing"), one, two)
    assert found.open_stage is None
    assert found.jobs[2].description == "waits for the jobs of stage 2"


def test_failed_job_ends_the_waiting() -> None:
    web = job("web", "waiting", 1, (on("cache"),))
    found = judged(job("db", "failed"), job("cache", "healthy"), web)
    assert found.open_stage is None
    assert (found.jobs[2].status, found.jobs[2].description) == (
        "skipped",
        "not applied: db failed",
    )
    status, description = judge_rollout(found.jobs)
    assert (status, description) == ("failed", "failed: db; not applied: web")


def test_dependency_that_the_rollout_does_not_change_is_judged_as_it_runs() -> None:
    web = job("web", "waiting", 1, (on("db"),))
    assert judged(web).jobs[0].description == "waits for db (healthy)"
    assert judged(web, outside=JobProgress.HEALTHY).open_stage == 1
    failed = judged(web, outside=JobProgress.FAILED)
    assert failed.jobs[0].description == "not applied: db (healthy) failed: 2 failed"
    assert judge_rollout(failed.jobs)[0] == "failed"


def test_dependency_that_was_changed_by_hand_is_judged_as_it_runs() -> None:
    web = job("web", "waiting", 1, (on("db"),))
    db = job("db", "overridden")
    assert judged(db, web).open_stage is None
    assert judged(db, web, outside=JobProgress.HEALTHY).open_stage == 1


def test_replaced_rollout_applies_nothing_more() -> None:
    found = judged(
        job("db", "healthy"),
        job("web", "waiting", 1, (on("db"),)),
        replaced="replaced by commit 12345678",
    )
    assert found.open_stage is None
    assert found.jobs[1].status == "superseded"
    assert found.jobs[1].description == "not applied: replaced by commit 12345678"


def test_paused_source_holds_its_stages_back() -> None:
    found = judged(
        job("db", "healthy"),
        job("web", "waiting", 1, (on("db"),)),
        held_back_by="waits until source demo is resumed",
    )
    assert found.open_stage is None
    assert found.jobs[1].status == "waiting"
    assert found.jobs[1].description == "waits until source demo is resumed"


def test_deletion_waits_for_every_job_before_it() -> None:
    old = job("old", "waiting", 2, (EVERY_JOB_BEFORE,))
    assert judged(job("db", "healthy"), job("web", "applied", 1), old).open_stage is None
    assert judged(job("db", "healthy"), job("web", "healthy", 1), old).open_stage == 2


def test_unapplied_jobs_are_those_that_wait_or_were_skipped() -> None:
    jobs = [job("a", "healthy"), job("b", "waiting", 1), job("c", "skipped", 1)]
    assert unapplied_jobs(Rollout(jobs=jobs)) == {("default", "b"), ("default", "c")}
