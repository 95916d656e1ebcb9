"""Recorded differences, and the rules of the walk that they rest on."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.jobdiff.annotate import annotated
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.flatten import as_text, flat_tree, free_form_text
from orchgit.jobdiff.report import JobDiff
from orchgit.jobdiff.spec import same_spec
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.job import Job, JobOrigin
from tests.scenarios.run_diff_golden import differences, report
from tests.support.factories import make_group, make_job, make_task

CASES = sorted((Path(__file__).parents[2] / "golden" / "diff").glob("*.json"))


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_recorded_report(file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    assert list(differences(case["Diff"], report(case))) == []


def test_recorded_cases_exist() -> None:
    assert len(CASES) >= 60


def names(diff: JobDiff) -> dict[str, str]:
    return {field.name: field.new for field in diff.fields or ()}


def test_new_job_shows_what_it_sets() -> None:
    diff = diff_jobs(None, make_job(id="web", meta={"owner": "me"}))
    assert (diff.type, diff.id) == ("Added", "web")
    fields = names(diff)
    assert fields["Meta[owner]"] == "me"
    assert fields["Priority"] == "50"
    assert not {"ID", "Version", "CreateIndex", "SubmitTime", "Status"} & fields.keys()


def test_removed_job_is_the_mirror_of_a_new_one() -> None:
    job = make_job(id="web")
    added, deleted = diff_jobs(None, job), diff_jobs(job, None)
    assert deleted.type == "Deleted"
    assert {field.name: field.old for field in deleted.fields or ()} == names(added)


def test_origin_of_a_job_is_no_difference() -> None:
    job = make_job(id="web")
    moved = replace(job, origin=JobOrigin(commit_id="a" * 40), version=3, job_modify_index=9)
    assert diff_jobs(job, moved).type == "None"
    assert same_spec(job, moved)
    assert not same_spec(job, replace(job, stop=True))
    assert not same_spec(job, replace(job, meta={"a": "b"}))


def test_two_jobs_cannot_be_compared() -> None:
    with pytest.raises(InvalidInputError, match="ids differ"):
        diff_jobs(make_job(id="a"), make_job(id="b"))


def test_without_context_only_changes_are_shown() -> None:
    old = make_job(
        id="web", task_groups=[make_group(tasks=[make_task(config={"a": "1", "b": "2"})])]
    )
    new = replace(old, task_groups=[make_group(tasks=[make_task(config={"a": "1", "b": "3"})])])
    for contextual, wanted in ((True, ["a", "b"]), (False, ["b"])):
        diff = diff_jobs(old, new, contextual)
        groups = diff.task_groups or []
        (config,) = (groups[0].tasks or [])[0].objects or []
        assert [field.name for field in config.fields or ()] == wanted


def test_free_form_trees_are_flattened() -> None:
    tree = {"args": ["a", "b"], "mount": [{"type": "bind", "ro": True}], "n": 2.0, "none": None}
    shown = {
        "args[0]": "a",
        "args[1]": "b",
        "mount[0][type]": "bind",
        "mount[0][ro]": "true",
        "n": "2",
    }
    assert flat_tree(tree, as_text) == shown
    assert flat_tree(tree, free_form_text) == {**shown, "none": "nil"}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-2.5, "-2.5"),
        (999999, "999999"),
        (1000000, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (15000000000000000000000, "1.5e+22"),
    ],
)
def test_numbers_of_free_form_trees_are_shown_as_floats(number: float, text: str) -> None:
    assert free_form_text(number) == text


def test_annotations_say_what_is_forced() -> None:
    old = make_job(id="web", count=3)
    new = replace(old, task_groups=[make_group(count=5)])
    diff = annotated(diff_jobs(old, new), {"web": DesiredUpdates(place=2, ignore=3)})
    (group,) = diff.task_groups or []
    assert group.updates == {"create": 2, "ignore": 3}
    (count,) = group.fields or []
    assert count.annotations == ["forces create"]


def test_changing_only_the_kill_timeout_is_done_in_place() -> None:
    old = make_job(id="web", task_groups=[make_group(tasks=[make_task(kill_timeout_ns=1)])])
    new = replace(old, task_groups=[make_group(tasks=[make_task(kill_timeout_ns=2)])])
    (group,) = annotated(diff_jobs(old, new)).task_groups or []
    assert (group.tasks or [])[0].annotations == ["forces in-place update"]


JOBS = st.builds(
    lambda count, meta, user, env: make_job(
        id="web",
        meta=meta,
        task_groups=[make_group(count=count, tasks=[make_task(user=user, env=env)])],
    ),
    st.integers(0, 3),
    st.none() | st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "x"])),
    st.sampled_from(["", "root"]),
    st.none() | st.dictionaries(st.sampled_from("AB"), st.text(max_size=3)),
)


@settings(max_examples=60)
@given(JOBS, JOBS)
def test_report_is_empty_only_for_equal_jobs_and_can_be_sent(old: Job, new: Job) -> None:
    diff = diff_jobs(old, new)
    assert msgspec.json.decode(msgspec.json.encode(diff), type=JobDiff) == diff
    assert diff_jobs(old, old).type == "None"
    if diff.type != "None":
        assert not same_spec(old, new)
    back = diff_jobs(new, old)
    assert {f.name for f in back.fields or ()} == {f.name for f in diff.fields or ()}
