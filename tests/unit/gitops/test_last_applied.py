"""What a source caches of the jobs that a commit registered."""

from orchgit.gitops.commits.last_applied import LastApplied, last_applied_jobs
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from tests.support.factories import make_job

KEY: JobKey = ("default", "web")
JOB = DesiredJob(make_job(id="web"), "web.hcl", 1, "a" * 40)
OTHER = DesiredJob(make_job(id="web", priority=70), "web.hcl", 1, "b" * 40)


def test_job_that_the_commit_registered_is_cached_with_its_new_index() -> None:
    before = {KEY: LastApplied(JOB, 5)}
    found = last_applied_jobs({KEY: OTHER}, before, {KEY: 5}, {KEY: 9}, {KEY})
    assert found == {KEY: LastApplied(OTHER, 9)}


def test_job_that_another_writer_changed_after_the_commit_is_not_cached() -> None:
    found = last_applied_jobs({KEY: OTHER}, {KEY: LastApplied(JOB, 5)}, {KEY: 5}, {}, {KEY})
    assert found == {}


def test_unchanged_job_keeps_its_record_and_a_scaled_one_gets_the_index_it_was_found_at() -> None:
    known = LastApplied(JOB, 5)
    assert last_applied_jobs({KEY: JOB}, {KEY: known}, {KEY: 5}, {}, ())[KEY] is known
    found = last_applied_jobs({KEY: JOB}, {KEY: known}, {KEY: 7}, {}, ())
    assert found == {KEY: LastApplied(JOB, 7)}


def test_job_that_waits_or_is_held_is_not_cached_and_a_gone_one_is_forgotten() -> None:
    known = {KEY: LastApplied(JOB, 5)}
    assert last_applied_jobs({KEY: JOB}, known, {KEY: 5}, {}, {KEY}) == {}
    assert last_applied_jobs({}, known, {KEY: 5}, {}, ()) == {}


def test_of_jobs_that_the_entry_was_not_about_is_known_what_was_before() -> None:
    known = {KEY: LastApplied(JOB, 5)}
    assert last_applied_jobs({KEY: JOB}, known, {}, {}, ()) == known
    assert last_applied_jobs({KEY: OTHER}, known, {}, {}, ()) == {}
