"""A plan's difference names the scaling policies that the server stores."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from orchgit.api.shapes.plan_diff import with_stored_policies
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.report import JobDiff
from orchgit.model.group import ScalingPolicy
from orchgit.model.job import Job
from orchgit.model.service import Service
from orchgit.services.identifiers import scaling_policy_id
from tests.support.factories import make_job


def job_with(policy: ScalingPolicy | None, **group: Any) -> Job:
    job = make_job(id="web")
    groups = [replace(each, scaling=policy, **group) for each in job.task_groups]
    return replace(job, job_modify_index=7, task_groups=groups)


def planned(old: Job, new: Job) -> JobDiff:
    sent = {each.name: each.scaling.id for each in new.task_groups if each.scaling}
    return with_stored_policies(diff_jobs(old, new), old, sent)


def test_submitted_policy_without_the_stored_id_is_an_empty_edited_object() -> None:
    diff = planned(job_with(ScalingPolicy(max=5)), job_with(ScalingPolicy(max=5)))
    (group,) = diff.task_groups or ()
    assert (diff.type, group.type) == ("Edited", "Edited")
    (scaling,) = group.objects or ()
    assert (scaling.name, scaling.type, scaling.fields, scaling.objects) == (
        "Scaling",
        "Edited",
        None,
        None,
    )


def test_job_as_it_is_read_has_no_difference() -> None:
    old = job_with(ScalingPolicy(max=5))
    policy_id = scaling_policy_id(old.namespace, old.id, old.task_groups[0].name)
    read = job_with(ScalingPolicy(id=policy_id, max=5, create_index=7, modify_index=7))
    assert planned(old, read).type == "None"


def test_changed_policy_is_shown_once_and_before_services() -> None:
    old = job_with(ScalingPolicy(max=5), services=[Service(name="a")])
    more = [Service(name="a"), Service(name="b")]
    for new_max in (5, 6):
        diff = planned(old, job_with(ScalingPolicy(max=new_max), services=more))
        (group,) = diff.task_groups or ()
        assert [each.name for each in group.objects or ()] == ["Scaling", "Service"]


def test_policy_that_comes_or_goes_is_left_as_it_is() -> None:
    for old, new in ((None, ScalingPolicy(max=5)), (ScalingPolicy(max=5), None)):
        before, after = job_with(old), job_with(new)
        assert planned(before, after) == diff_jobs(before, after)
    new_job = job_with(ScalingPolicy(max=5))
    new_diff = diff_jobs(None, new_job)
    assert with_stored_policies(new_diff, None, {"g": ""}) is new_diff
