"""The health of a source: every status, which of several counts, and numbers that agree."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.gitops.commits.holds import held_text
from orchgit.gitops.sources.health import MAX_REASONS_OF_A_STATUS, SourceView, judge_source
from orchgit.gitops.sources.job_health import JobNow, judge_job_now
from orchgit.model.drift import DriftField, JobDrift
from orchgit.model.held_version import HeldVersion
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import PauseRecord, Source, SourceStatus
from orchgit.model.source_health import HealthStatus, SourceCheck, SourceHealth
from orchgit.state.tables.source_jobs import SourceJob

APPLIED, NEWER = "a" * 40, "b" * 40
SOURCE = Source(name="demo", kind="remote", status=SourceStatus(applied_commit=APPLIED))
CHECK = SourceCheck(known=True, remote_commit=APPLIED)
GOOD = SourceView(SOURCE, CHECK)
HELD = HeldVersion(job_id="web", commit_id="c2bfbb33", reason="failed its health check")
DRIFT = JobDrift("default", "web", "demo", changed_by="ada", fields=[DriftField("priority")])


def job(job_id: str = "web", **fields: Any) -> SourceJob:
    values = {
        "namespace": "default",
        "type": "service",
        "version": 0,
        "status": "running",
        "is_parent": False,
        "job_modify_index": 1,
        "queued": 0,
        "running": 0,
        "starting": 0,
        "failed": 0,
        "unknown": 0,
        "modify_index": 1,
    }
    return SourceJob(job_id=job_id, **(values | fields))


def with_status(view: SourceView, **fields: Any) -> SourceView:
    source = replace(view.source, status=replace(view.source.status, **fields))
    return dataclasses.replace(view, source=source)


def with_source(view: SourceView, **fields: Any) -> SourceView:
    return dataclasses.replace(view, source=replace(view.source, **fields))


def with_active(view: SourceView, status: str, description: str = "") -> SourceView:
    rollout = Rollout(
        id="r" * 36, commit=Commit(id=NEWER), status=status, status_description=description
    )
    return dataclasses.replace(view, active=(*view.active, rollout))


def degraded(view: SourceView) -> SourceView:
    return dataclasses.replace(view, jobs=[*view.jobs, JobNow(job(running=1), wanted=2)])


def unreachable(view: SourceView) -> SourceView:
    view = with_status(view, last_error="cannot fetch: no route", error_kind="unreachable")
    return dataclasses.replace(view, check=replace(view.check, failures=3, remote_commit=""))


def held(view: SourceView) -> SourceView:
    return dataclasses.replace(view, held=[HELD])


def drifted(view: SourceView) -> SourceView:
    return dataclasses.replace(view, drifted=[DRIFT])


def paused(view: SourceView) -> SourceView:
    record = PauseRecord(by="ada", reason="the database moves")
    return with_source(view, paused=True, pause=record)


def pending(view: SourceView) -> SourceView:
    return with_active(view, "awaiting_approval", "approval by two people")


def progressing(view: SourceView) -> SourceView:
    return with_active(view, "progressing", "1 of 2 jobs done")


CONDITIONS = {
    "degraded": degraded,
    "unreachable": unreachable,
    "held": held,
    "drifted": drifted,
    "paused": paused,
    "pending": pending,
    "progressing": progressing,
}
"""The worst first."""
TEXTS = {
    "degraded": "1/2 running",
    "unreachable": "cannot fetch: no route (3 tries failed)",
    "held": held_text(HELD),
    "drifted": "changed by ada: priority",
    "paused": "paused by ada: the database moves",
    "pending": "commit bbbbbbbb waits: approval by two people",
    "progressing": "rollout rrrrrrrr of commit bbbbbbbb: 1 of 2 jobs done",
}


def texts(health: SourceHealth) -> list[tuple[str, str]]:
    return [(each.status, each.text) for each in health.reasons]


def test_statuses_are_the_conditions_and_healthy_in_this_order() -> None:
    assert [*CONDITIONS, "healthy"] == [str(each) for each in HealthStatus]


def test_source_without_any_condition_is_healthy() -> None:
    health = judge_source(GOOD)
    assert (health.status, health.reasons, health.difference) == ("healthy", [], "")


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_condition_gives_its_status_and_says_why(name: str) -> None:
    health = judge_source(CONDITIONS[name](GOOD))
    assert health.status == name
    assert texts(health) == [(name, TEXTS[name])]


@pytest.mark.parametrize(("worse", "better"), list(combinations(CONDITIONS, 2)))
def test_of_two_conditions_the_worse_is_the_status_and_both_are_told(
    worse: str, better: str
) -> None:
    health = judge_source(CONDITIONS[worse](CONDITIONS[better](GOOD)))
    if {worse, better} == {"unreachable", "paused"}:
        # A paused source asks nobody: its last error says nothing of now.
        assert texts(health) == [("paused", TEXTS["paused"])]
        return
    assert health.status == worse
    assert texts(health) == [(worse, TEXTS[worse]), (better, TEXTS[better])]


@pytest.mark.parametrize(
    ("view", "status", "difference"),
    [
        (GOOD, "healthy", ""),
        (
            with_status(GOOD, last_error="refused commit bb: 1 problem: x", error_kind="held"),
            "held",
            "stays at commit aaaaaaaa: refused commit bb: 1 problem: x",
        ),
        (
            with_status(GOOD, quarantined=[NEWER]),
            "held",
            "stays at commit aaaaaaaa: commit bbbbbbbb was reverted: push a commit on top of it",
        ),
        (paused(GOOD), "paused", "paused by ada: the database moves"),
        (pending(GOOD), "pending", "commit bbbbbbbb waits: approval by two people"),
        (GOOD, "healthy", "commit bbbbbbbb is being applied"),
    ],
)
def test_difference_says_why_the_applied_commit_is_not_the_remotes(
    view: SourceView, status: str, difference: str
) -> None:
    if difference:
        view = dataclasses.replace(view, check=replace(view.check, remote_commit=NEWER))
    health = judge_source(view)
    assert (health.status, health.difference) == (status, difference)
    assert (health.applied_commit, health.remote_commit) == (APPLIED, view.check.remote_commit)


@pytest.mark.parametrize(
    ("error", "status"),
    [("refused commit bb: 1 problem: x", "held"), ("cannot fetch", "unreachable")],
)
def test_error_that_an_earlier_version_recorded_is_understood(error: str, status: str) -> None:
    assert judge_source(with_status(GOOD, last_error=error)).status == status


@pytest.mark.parametrize(
    ("kind", "text"),
    [("builtin", "no commit yet: push one to /git/demo.git"), ("remote", "no commit yet")],
)
def test_source_without_a_commit_is_pending(kind: str, text: str) -> None:
    health = judge_source(SourceView(Source(name="demo", kind=kind), SourceCheck()))
    assert texts(health) == [("pending", text)]


def test_many_reasons_of_one_status_are_counted() -> None:
    jobs = [JobNow(job(f"j{n}"), wanted=1) for n in range(MAX_REASONS_OF_A_STATUS + 2)]
    health = judge_source(dataclasses.replace(GOOD, jobs=jobs))
    assert len(health.reasons) == MAX_REASONS_OF_A_STATUS + 1
    assert health.reasons[-1].text == "and 2 more jobs"
    assert health.jobs.degraded == len(jobs)


@pytest.mark.parametrize(
    ("now", "status", "text"),
    [
        (JobNow(job(running=2), 2), "healthy", ""),
        (JobNow(job(running=0), 0), "healthy", ""),
        (JobNow(job(running=1, starting=1), 2), "progressing", "1/2 running, 1 starting"),
        (JobNow(job(running=1), 2), "degraded", "1/2 running"),
        (JobNow(job(starting=2), 2, restarting=2), "degraded", "0/2 running, 2 restarting"),
        (
            JobNow(job(starting=2), 2, restarting=1, in_rollout=True),
            "progressing",
            "0/2 running, 1 starting, 1 restarting",
        ),
        (
            JobNow(job(type="system", running=1, starting=1), 1, restarting=1),
            "degraded",
            "1 running, 1 restarting",
        ),
        (JobNow(job(running=1, queued=1), 2), "degraded", "1/2 running, 1 not placed"),
        (
            JobNow(job(queued=2), 2, unplaced="2 not placed (cpu exhausted on 1 node)"),
            "degraded",
            "0/2 running, 2 not placed (cpu exhausted on 1 node)",
        ),
        (JobNow(job(running=1, unknown=1), 2), "degraded", "1/2 running, 1 on disconnected nodes"),
        (JobNow(job(failed=9), 2, failed=2), "degraded", "0/2 running, 2 failed"),
        (JobNow(job(queued=2), 2, in_rollout=True), "progressing", "0/2 running, 2 not placed"),
        (
            JobNow(job(running=2, deployment_status="failed"), 2),
            "degraded",
            "its deployment failed, 2/2 running",
        ),
        (
            JobNow(job(running=2, deployment_status="running"), 2),
            "progressing",
            "is being deployed, 2/2 running",
        ),
        (JobNow(job(running=2, deployment_status="successful"), 2), "healthy", ""),
        (JobNow(job(is_parent=True, type="batch"), 5), "healthy", ""),
        (JobNow(job(type="batch", status="dead"), 1), "healthy", ""),
        (JobNow(job(type="batch", status="dead", failed=1), 1, failed=1), "degraded", "1 failed"),
        (
            JobNow(job(type="batch", failed=1), 1, failed=1),
            "progressing",
            "0 running, 1 failed",
        ),
        (JobNow(job(type="batch", queued=1), 1), "degraded", "0 running, 1 not placed"),
        (JobNow(job(type="sysbatch", starting=1), 1), "progressing", "0 running, 1 starting"),
        (JobNow(job(type="system", running=3), 1), "healthy", ""),
        (JobNow(job(type="system", running=2, failed=1), 1), "healthy", ""),
        (
            JobNow(job(type="system", running=2, failed=1), 1, failed=1),
            "degraded",
            "2 running, 1 failed",
        ),
    ],
)
def test_job_is_judged_as_it_is_now(now: JobNow, status: str, text: str) -> None:
    found = judge_job_now(now)
    assert (found.status, found.text) == (status, text)


COUNTS = st.integers(0, 3)


@given(
    st.lists(
        st.builds(
            lambda fields, wanted, in_rollout: (fields, wanted, in_rollout),
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["service", "batch", "system", "sysbatch"]),
                    "status": st.sampled_from(["pending", "running", "dead"]),
                    "running": COUNTS,
                    "starting": COUNTS,
                    "queued": COUNTS,
                    "unknown": COUNTS,
                    "deployment_status": st.sampled_from(["", "running", "failed", "successful"]),
                }
            ),
            COUNTS,
            st.booleans(),
        ),
        max_size=30,
    ),
    st.sets(st.sampled_from(sorted(CONDITIONS))),
)
def test_numbers_and_status_agree_for_any_source(jobs: list[Any], conditions: set[str]) -> None:
    view = dataclasses.replace(
        GOOD,
        jobs=[
            JobNow(job(f"j{n}", **fields), wanted, in_rollout=in_rollout)
            for n, (fields, wanted, in_rollout) in enumerate(jobs)
        ],
    )
    for name in conditions:
        view = CONDITIONS[name](view)
    health = judge_source(view)
    counts = health.jobs
    assert counts.total == len(view.jobs)
    assert counts.healthy + counts.progressing + counts.degraded == counts.total
    assert (counts.held, counts.drifted) == (len(view.held), len(view.drifted))
    named = {each.status for each in health.reasons}
    assert ("degraded" in named) == bool(counts.degraded)
    assert ("held" in named) == bool(counts.held)
    assert ("drifted" in named) == bool(counts.drifted)
    assert counts.progressing == 0 or "progressing" in named
    assert health.status == next((each for each in HealthStatus if each in named), "healthy")
