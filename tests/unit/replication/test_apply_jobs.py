"""Registering, stopping and purging jobs."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.job import (
    Job,
    JobSubmission,
    JobVersionTag,
    ParameterizedJobConfig,
    PeriodicConfig,
)
from orchgit.model.scaling import EVENTS_KEPT, ScalingEvent
from orchgit.model.volume import TaskGroupVolumeClaim
from orchgit.replication.commands.evaluations import DeleteEvaluations, UpsertEvaluations
from orchgit.replication.commands.jobs import (
    DeleteJobVersionTag,
    DeregisterJob,
    JobDeletion,
    JobUpsert,
    RecordScalingEvent,
    RegisterJob,
    SetJobStability,
    SetJobVersionTag,
)
from tests.support.factories import make_evaluation, make_job, make_system_job
from tests.unit.replication.conftest import Cluster


def stop(cluster: Cluster, job_id: str, purge: bool = False) -> None:
    cluster.do(DeregisterJob(deletion=JobDeletion("default", job_id, purge=purge)))


def test_new_job_is_pending_at_version_0(cluster: Cluster) -> None:
    job = make_job()
    evaluation = make_evaluation(job)
    result = cluster.do(RegisterJob(upsert=JobUpsert(job=job), evaluation=evaluation))
    stored = cluster.job(job)
    assert (stored.version, stored.status, stored.create_index) == (0, "pending", 1)
    assert (result.version, result.job_modify_index, result.changed) == (0, 1, True)
    with cluster.see() as snapshot:
        found = snapshot.evaluations.get(evaluation.id)
    assert found is not None
    assert (found.job_modify_index, found.create_index, found.modify_index) == (1, 1, 1)
    assert cluster.noted() == ["Job:JobRegistered", "Evaluation:JobRegistered"]


def test_same_spec_makes_no_version(cluster: Cluster) -> None:
    job = make_job()
    cluster.register(job)
    again = msgspec.structs.replace(job, submit_time_ns=9, status="running", version=7)
    assert not cluster.register(again).changed
    assert cluster.job(job).version == 0
    assert cluster.job(job).job_modify_index == 1


def test_change_makes_the_next_version_and_keeps_the_create_index(cluster: Cluster) -> None:
    job = make_job()
    cluster.register(job)
    cluster.register(msgspec.structs.replace(job, priority=70))
    stored = cluster.job(job)
    assert (stored.version, stored.create_index, stored.job_modify_index) == (1, 1, 2)
    with cluster.see() as snapshot:
        assert [one.priority for one in snapshot.job_versions.of_job("default", job.id)] == [70, 50]
        first = snapshot.job_versions.get("default", job.id, 0)
        assert first is not None
        assert first.priority == 50


@pytest.mark.parametrize("expected", [0, 7])
def test_compare_and_set_refuses_a_job_that_changed(cluster: Cluster, expected: int) -> None:
    job = make_job()
    cluster.register(job)
    changed = msgspec.structs.replace(job, priority=70)
    with pytest.raises(ConflictError, match="its modify index is 1"):
        cluster.register(changed, expected_modify_index=expected)
    assert cluster.job(job).priority == 50
    assert cluster.register(changed, expected_modify_index=1).version == 1


def test_compare_and_set_refuses_a_job_that_is_gone(cluster: Cluster) -> None:
    with pytest.raises(ConflictError, match="not registered"):
        cluster.register(make_job(), expected_modify_index=3)


def test_namespace_must_exist(cluster: Cluster) -> None:
    with pytest.raises(NotFoundError, match="namespace 'elsewhere'"):
        cluster.register(make_job(namespace="elsewhere"))


def test_stop_is_a_version_and_starting_again_is_another(cluster: Cluster) -> None:
    job = make_job()
    cluster.register(job)
    stop(cluster, job.id)
    stopped = cluster.job(job)
    assert (stopped.stop, stopped.version) == (True, 1)
    cluster.register(job)
    assert (cluster.job(job).stop, cluster.job(job).version) == (False, 2)


def test_stop_of_an_unregistered_job_is_refused(cluster: Cluster) -> None:
    with pytest.raises(NotFoundError, match="no such job"):
        stop(cluster, "nobody")


def test_purge_stops_allocations_and_drops_claims_and_versions(cluster: Cluster) -> None:
    job, node = make_job(), cluster.node()
    cluster.register(job)
    (alloc_id,) = cluster.place(job, node)
    txn = cluster.store.begin()
    txn.begin_entry(9, 0)
    txn.volume_claims.put(TaskGroupVolumeClaim(id="claim", job_id=job.id, alloc_id=alloc_id))
    txn.end_entry()
    cluster.store.publish(txn.commit(9), 9)
    stop(cluster, job.id, purge=True)
    with cluster.see() as snapshot:
        assert snapshot.jobs.get("default", job.id) is None
        assert snapshot.job_summaries.get("default", job.id) is None
        assert snapshot.volume_claims.all() == []
        assert snapshot.job_versions.get("default", job.id, 0) is not None, "agents still need it"
    assert cluster.alloc(alloc_id).desired_status == "stop"


def test_purged_job_registered_again_begins_at_version_0(cluster: Cluster) -> None:
    job, node = make_job(), cluster.node()
    cluster.register(job)
    cluster.register(msgspec.structs.replace(job, priority=60))
    (old,) = cluster.place(job, node)
    stop(cluster, job.id, purge=True)
    cluster.register(job)
    assert cluster.job(job).version == 0
    cluster.report(node, old, status="complete")
    with cluster.see() as snapshot:
        summary = snapshot.job_summaries.get("default", job.id)
    assert summary is not None
    assert summary.summary["web"].complete == 0, "the old job's allocations are not the new one's"
    cluster.do(DeleteEvaluations(alloc_ids=[old]))
    with cluster.see() as snapshot:
        assert [one.version for one in snapshot.job_versions.of_job("default", job.id)] == [0]
        assert snapshot.job_versions.get("default", job.id, 1) is None


def test_six_versions_are_kept_with_the_stable_and_tagged_ones(cluster: Cluster) -> None:
    job = make_job()
    for priority in range(1, 4):
        job = msgspec.structs.replace(job, priority=priority)
        if priority == 2:
            tagged = msgspec.structs.replace(job, version_tag=JobVersionTag(name="golden"))
            cluster.register(tagged)
        else:
            cluster.register(job)
    cluster.do(SetJobStability(namespace="default", job_id=job.id, version=0, stable=True))
    for priority in range(4, 12):
        cluster.register(msgspec.structs.replace(job, priority=priority))
    with cluster.see() as snapshot:
        kept = [one.version for one in snapshot.job_versions.of_job("default", job.id)]
    assert kept == [10, 9, 8, 7, 6, 1, 0]


def test_tag_names_one_version_and_keeps_it(cluster: Cluster) -> None:
    job = make_job()
    for priority in range(1, 4):
        cluster.register(msgspec.structs.replace(job, priority=priority))
    key = {"namespace": "default", "job_id": job.id}
    cluster.do(SetJobVersionTag(**key, version=1, name="rel", description="d", now_ns=7))
    cluster.do(SetJobVersionTag(**key, version=1, name="rel", description="e", now_ns=8))
    with pytest.raises(RefusedError, match='tag "rel" already exists on a different version'):
        cluster.do(SetJobVersionTag(**key, version=None, name="rel"))
    for priority in range(4, 12):
        cluster.register(msgspec.structs.replace(job, priority=priority))
    with cluster.see() as snapshot:
        kept = {one.version: one for one in snapshot.job_versions.of_job("default", job.id)}
    assert kept[1].version_tag == JobVersionTag("rel", "e", 8)
    cluster.do(DeleteJobVersionTag(**key, name="rel"))
    with cluster.see() as snapshot:
        assert snapshot.job_versions.get("default", job.id, 1) is None
    with pytest.raises(RefusedError, match='tag "rel" not found on job'):
        cluster.do(DeleteJobVersionTag(**key, name="rel"))


def test_scaling_events_are_kept_newest_first_until_the_job_is_purged(cluster: Cluster) -> None:
    job = make_job()
    cluster.register(job)
    for count in range(EVENTS_KEPT + 2):
        event = ScalingEvent(count=count, time_ns=count)
        cluster.do(RecordScalingEvent(namespace="default", job_id=job.id, group="web", event=event))
    with cluster.see() as snapshot:
        found = snapshot.scaling_events.get("default", job.id)
    assert found is not None
    assert [each.count for each in found.groups["web"]] == [*range(EVENTS_KEPT + 1, 1, -1)]
    assert found.groups["web"][0].create_index == found.modify_index
    stop(cluster, job.id, purge=True)
    with cluster.see() as snapshot:
        assert snapshot.scaling_events.get("default", job.id) is None


def test_dropped_version_stays_readable_while_allocations_run_it(cluster: Cluster) -> None:
    job, node = make_job(), cluster.node()
    cluster.register(job)
    (alloc_id,) = cluster.place(job, node)
    for priority in range(60, 67):
        cluster.register(msgspec.structs.replace(job, priority=priority))
    with cluster.see() as snapshot:
        assert 0 not in [one.version for one in snapshot.job_versions.of_job("default", job.id)]
        assert snapshot.job_versions.get("default", job.id, 0) is not None
    cluster.report(node, alloc_id, status="complete")
    cluster.do(DeleteEvaluations(alloc_ids=[alloc_id]))
    with cluster.see() as snapshot:
        assert snapshot.job_versions.get("default", job.id, 0) is None


def test_submission_is_kept_with_its_version(cluster: Cluster) -> None:
    job = make_job()
    cluster.register(job, submission=JobSubmission(source='job "x" {}'))
    with cluster.see() as snapshot:
        submission = snapshot.job_submissions.get("default", job.id, 0)
    assert submission is not None
    assert (submission.source, submission.job_modify_index) == ('job "x" {}', 1)


def status(cluster: Cluster, job_id: str) -> str:
    with cluster.see() as snapshot:
        job = snapshot.jobs.get("default", job_id)
    assert job is not None
    return job.status


def test_status_follows_allocations_and_evaluations(cluster: Cluster) -> None:
    job, node = make_job(), cluster.node()
    evaluation = make_evaluation(job)
    cluster.do(RegisterJob(upsert=JobUpsert(job=job), evaluation=evaluation))
    (alloc_id,) = cluster.place(job, node)
    assert status(cluster, job.id) == "running"
    done = msgspec.structs.replace(evaluation, status="complete")
    cluster.do(UpsertEvaluations(evaluations=[done]))
    assert status(cluster, job.id) == "running"
    cluster.report(node, alloc_id, status="complete")
    assert status(cluster, job.id) == "dead"
    cluster.do(UpsertEvaluations(evaluations=[make_evaluation(job)]))
    assert status(cluster, job.id) == "pending"


def test_garbage_collection_of_everything_leaves_the_job_dead(cluster: Cluster) -> None:
    job = make_job()
    evaluation = make_evaluation(job, status="complete")
    cluster.do(RegisterJob(upsert=JobUpsert(job=job), evaluation=evaluation))
    assert status(cluster, job.id) == "dead"
    cluster.do(DeleteEvaluations(eval_ids=[evaluation.id]))
    assert status(cluster, job.id) == "dead"


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(make_system_job(id="everywhere"), id="system"),
        pytest.param(make_job(id="cron", periodic=PeriodicConfig(spec="* * * * *")), id="periodic"),
        pytest.param(
            make_job(id="template", parameterized_job=ParameterizedJobConfig()), id="parameterized"
        ),
    ],
)
def test_system_and_parent_jobs_run_until_they_are_stopped(cluster: Cluster, job: Job) -> None:
    cluster.register(job)
    assert status(cluster, job.id) == "running"
    stop(cluster, job.id)
    assert status(cluster, job.id) == "dead"


def test_children_are_counted_by_status(cluster: Cluster) -> None:
    parent = make_job(id="cron", periodic=PeriodicConfig(spec="* * * * *"))
    cluster.register(parent)
    for number in range(3):
        cluster.register(make_job(id=f"cron/periodic-{number}", parent_id="cron"))
    with cluster.see() as snapshot:
        summary = snapshot.job_summaries.get("default", "cron")
        assert len(snapshot.jobs.of_parent("default", "cron")) == 3
        assert [job.id for job in snapshot.jobs.periodic()] == ["cron"]
    assert summary is not None
    assert summary.children is not None
    assert summary.children.pending == 3


def test_jobs_are_found_by_prefix_and_namespace(cluster: Cluster) -> None:
    for name in ("web", "web-2", "db"):
        cluster.register(make_job(id=name))
    with cluster.see() as snapshot:
        assert [job.id for job in snapshot.jobs.all(prefix="web")] == ["web", "web-2"]
        assert [job.id for job in snapshot.jobs.all("default")] == ["db", "web", "web-2"]
        assert snapshot.jobs.all("other") == []
