"""Which jobs have drifted, by whom, in what, and what is never shown. Pure rules."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.gitops.drift.comparison import JobFacts, job_drift, was_auto_reverted
from orchgit.gitops.drift.differences import (
    HIDDEN,
    compile_ignored,
    differences,
    shown_fields,
    without_ignored,
)
from orchgit.gitops.parsing.desired import DesiredJob
from orchgit.model.constraint import Constraint
from orchgit.model.deployment import Deployment
from orchgit.model.drift import JobDrift
from orchgit.model.group import ScalingPolicy
from orchgit.model.job import ChangedBy, Job, JobOrigin
from orchgit.model.resources import Resources
from orchgit.model.source import DriftPolicy, PrunePolicy, Source, SourceStatus
from orchgit.services.jobs.admission import completed
from tests.support.factories import make_batch_job, make_group, make_job, make_task

KEY = ("default", "web")
NOW_NS = 5_000
SOURCE = Source(name="demo", status=SourceStatus(applied_commit="c" * 40))
FILE_JOB = completed(make_job(id="web"))
WANTED = DesiredJob(FILE_JOB, "web.hcl", 3, "b" * 40)
ADA = ChangedBy(via="scale", user="ada", address="10.0.0.5", time_ns=4_000, version=1)


def registered(job: Job = FILE_JOB, owner: str = "demo", **fields: Any) -> Job:
    origin = JobOrigin(source=owner, changed_by=fields.pop("changed_by", None))
    return replace(job, origin=origin, **{"version": 1, "job_modify_index": 9, **fields})


def scaled(count: int = 5, **fields: Any) -> Job:
    return registered(replace(FILE_JOB, task_groups=[make_group(count=count)]), **fields)


def found(job: Job | None, source: Source = SOURCE, **facts: Any) -> JobDrift | None:
    known = JobFacts(**{"wanted": WANTED, "registered": job, **facts})
    return job_drift(source, KEY, known, NOW_NS)


def kind(job: Job | None, source: Source = SOURCE, **facts: Any) -> str | None:
    drift = found(job, source, **facts)
    return drift.kind if drift is not None else None


def test_job_that_is_registered_as_its_file_says_has_not_drifted() -> None:
    assert found(registered()) is None


def test_changed_job_tells_who_changed_it_when_by_what_and_in_which_fields() -> None:
    drift = found(scaled(changed_by=ADA))
    assert drift is not None
    assert (drift.kind, drift.since_ns, drift.job_version) == ("changed", 4_000, 1)
    assert (drift.changed_by, drift.changed_via) == ("ada (claimed) from 10.0.0.5", "scale")
    assert [(each.path, each.old, each.new) for each in drift.fields] == [
        ("group.web.count", "1", "5")
    ]
    assert (drift.file, drift.line, drift.commit_id) == ("web.hcl", 3, "c" * 40)


def test_author_of_an_earlier_version_is_not_named() -> None:
    drift = found(scaled(changed_by=replace(ADA, version=0)))
    assert drift is not None
    assert (drift.changed_by, drift.changed_via, drift.since_ns) == ("", "unknown", NOW_NS)


def test_automatic_revert_is_named_as_such() -> None:
    deployment = Deployment(
        job_version=0, status_description="failed - rolling back to job version 3"
    )
    assert was_auto_reverted(scaled(), [deployment])
    assert not was_auto_reverted(scaled(changed_by=ADA), [deployment])
    assert not was_auto_reverted(scaled(), [replace(deployment, job_version=1)])
    drift = found(scaled(), auto_reverted=True)
    assert drift is not None
    assert drift.changed_via == "auto_revert"


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (None, "missing"),
        (registered(stop=True), "stopped"),
        (registered(stop=True, owner=""), "stopped"),
        (registered(owner=""), "changed"),
        (registered(owner="other"), None),
        (registered(parent_id="parent"), None),
        (scaled(owner="other"), None),
    ],
)
def test_stopped_purged_and_disowned_jobs_have_drifted_and_those_of_others_have_not(
    job: Job | None, expected: str | None
) -> None:
    assert kind(job) == expected


def test_released_and_held_jobs_have_not_drifted() -> None:
    released = replace(scaled(), origin=JobOrigin(released_from="demo"))
    assert kind(released) is None
    assert kind(replace(released, stop=True)) is None
    assert kind(scaled(), is_held=True) is None


def test_jobs_that_run_once_drift_only_in_what_they_are() -> None:
    batch = completed(make_batch_job(id="web"))
    wanted = DesiredJob(batch, "web.hcl", 1, "b" * 40)
    assert kind(None, wanted=wanted) is None
    assert kind(registered(batch, stop=True), wanted=wanted) is None
    assert kind(registered(replace(batch, priority=70)), wanted=wanted) == "changed"


def test_job_without_a_file_has_drifted_unless_the_source_keeps_such_jobs() -> None:
    keeps = replace(SOURCE, prune=PrunePolicy(enabled=False))
    assert kind(registered(), wanted=None) == "without_file"
    assert kind(registered(stop=True), wanted=None) is None
    assert kind(registered(owner="other"), wanted=None) is None
    assert kind(registered(), keeps, wanted=None) is None


def test_count_of_an_enabled_scaling_policy_is_no_drift_within_its_bounds() -> None:
    def job(count: int, enabled: bool = True) -> Job:
        policy = ScalingPolicy(min=1, max=6, enabled=enabled)
        return completed(make_job(id="web", task_groups=[make_group(count=count, scaling=policy)]))

    wanted = DesiredJob(job(2), "web.hcl", 1, "b" * 40)
    assert kind(registered(job(6)), wanted=wanted) is None
    assert kind(registered(job(9)), wanted=wanted) == "changed"
    off = DesiredJob(job(2, enabled=False), "web.hcl", 1, "b" * 40)
    assert kind(registered(job(6, enabled=False)), wanted=off) == "changed"


def test_time_and_note_are_kept_while_the_same_version_is_drifted() -> None:
    heals = replace(SOURCE, drift=DriftPolicy(action="heal"))
    recorded = found(scaled(changed_by=ADA))
    assert recorded is not None
    noted = replace(recorded, note="not healed: because", since_ns=7)
    later = found(scaled(changed_by=ADA), heals, recorded=noted)
    assert later is not None
    assert (later.note, later.since_ns) == ("not healed: because", 7)
    adopts = replace(SOURCE, drift=DriftPolicy(action="adopt"))
    for source, job in ((SOURCE, scaled()), (adopts, scaled()), (heals, scaled(version=2))):
        other = found(job, source, recorded=noted)
        assert other is not None
        assert (other.note, other.since_ns) == ("", 7)


def test_purged_job_keeps_who_is_recorded_to_have_purged_it() -> None:
    recorded = JobDrift(
        *KEY, "demo", kind="missing", changed_by="ada", changed_via="purge", since_ns=3
    )
    drift = found(None, recorded=recorded)
    assert drift is not None
    assert (drift.changed_by, drift.changed_via, drift.since_ns) == ("ada", "purge", 3)


# -- differences -------------------------------------------------------------------------------


def paths(new: Job) -> dict[str, tuple[Any, Any]]:
    return {each.dotted: (each.old, each.new) for each in differences(FILE_JOB, new)}


def with_task(**fields: Any) -> Job:
    return replace(FILE_JOB, task_groups=[make_group(tasks=[make_task(**fields)])])


def test_differences_have_the_names_of_the_job_file() -> None:
    assert paths(replace(FILE_JOB, priority=70, meta={"a.b": "1"})) == {
        "priority": (50, 70),
        "meta.a.b": (None, "1"),
    }
    task = "group.web.task.web"
    changed = with_task(
        env={"LEVEL": "debug"},
        config={"command": "/bin/sleep", "args": ["1"]},
        kill_timeout_ns=9_000_000_000,
        resources=Resources(cpu=200, memory_mb=64),
    )
    assert paths(changed) == {
        f"{task}.env.LEVEL": (None, "debug"),
        f"{task}.config.args": (["3600"], ["1"]),
        f"{task}.kill_timeout": (5_000_000_000, 9_000_000_000),
        f"{task}.resources.cpu": (100, 200),
    }


def test_blocks_without_a_label_are_known_by_their_place_and_others_by_their_label() -> None:
    one, two = Constraint("${a}", "1", "="), Constraint("${b}", "2", "=")
    old, new = replace(FILE_JOB, constraints=[one]), replace(FILE_JOB, constraints=[one, two])
    assert [each.dotted for each in differences(old, new)] == ["constraint[1]"]
    assert [each.dotted for each in differences(old, replace(old, constraints=[two]))] == [
        "constraint.attribute",
        "constraint.value",
    ]
    more = replace(FILE_JOB, task_groups=[*FILE_JOB.task_groups, make_group(name="db")])
    assert paths(more).keys() == {"group.db"}


@pytest.mark.parametrize(
    ("pattern", "is_ignored"),
    [
        ("group.*.count", True),
        ("group.web.count", True),
        ("group", True),
        ("group.*", True),
        ("**.count", True),
        ("*.count", False),
        ("group.db.count", False),
        ("group.*.coun", False),
    ],
)
def test_ignored_paths_are_globs_that_cover_what_is_below(pattern: str, is_ignored: bool) -> None:
    drift = differences(FILE_JOB, scaled())
    assert bool(without_ignored(drift, compile_ignored([pattern]))) is not is_ignored
    source = replace(SOURCE, drift=DriftPolicy(ignore=[pattern]))
    assert (found(scaled(), source) is None) is is_ignored


def test_secrets_are_not_shown_and_long_values_are_shortened() -> None:
    env = {
        "DB_PASSWORD": "hunter2",
        "apiToken": "t0ken",
        "URL": "https://ada:pw@host/x",
        "CONFIG": "user=x;pin=4711",
        "TEXT": "a\n" + "x" * 500,
    }
    fields, more = shown_fields(
        differences(FILE_JOB, with_task(env=env)), {"db_secret": "4711", "size": "3"}
    )
    shown = {each.path.rpartition(".")[2]: each.new for each in fields}
    assert shown["DB_PASSWORD"] == shown["apiToken"] == shown["CONFIG"] == HIDDEN
    assert shown["URL"] == "https://***@host/x"
    assert len(shown["TEXT"]) == 80
    assert "\n" not in shown["TEXT"]
    assert more == 0


def test_only_the_first_differences_are_kept() -> None:
    env = {f"NAME_{number:03}": "x" for number in range(50)}
    fields, more = shown_fields(differences(FILE_JOB, with_task(env=env)), {})
    assert (len(fields), more) == (20, 30)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.dictionaries(st.sampled_from("abc"), st.text(max_size=3), max_size=3),
    st.integers(1, 100),
)
def test_two_jobs_differ_exactly_if_a_difference_is_found(
    count: int, meta: dict[str, str], priority: int
) -> None:
    group = make_group(count=count)
    other = replace(FILE_JOB, task_groups=[group], meta=meta or None, priority=priority)
    same = count == 1 and not meta and priority == 50
    assert (differences(FILE_JOB, other) == []) is same
