"""Sources and rollouts (invariant 9): whole or not at all, and the commit moves only with it."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import JobOrigin
from orchgit.model.rollout import Commit, Rollout, RolloutJob
from orchgit.model.source import AppliedJob, Source, SourceStatus
from orchgit.replication.commands.gitops import (
    ApplyCommit,
    ApplyRollout,
    ApplyStage,
    DeleteRollouts,
    DeleteSource,
    RecordProgress,
    RecordRollout,
    RemoveSource,
    SetJobOwner,
    StoreSource,
    UpdateSourceStatus,
    UpsertSource,
)
from orchgit.replication.commands.jobs import JobDeletion, JobUpsert
from tests.support.factories import make_evaluation, make_job
from tests.unit.replication.conftest import Cluster

ORIGIN = JobOrigin(source="demo", commit_id="c1", rollout_id="r1")


@pytest.fixture(autouse=True)
def demo(cluster: Cluster) -> None:
    cluster.do(UpsertSource(source=Source(name="demo")))


def rollout(commit: str, *jobs: str, id_: str = "r1") -> Rollout:
    return Rollout(
        id=id_,
        source="demo",
        commit=Commit(id=commit),
        status="applied",
        jobs=[RolloutJob(job_id=job) for job in jobs],
    )


def test_commit_moves_jobs_evaluations_and_source_together(cluster: Cluster) -> None:
    cluster.register(make_job(id="old", origin=ORIGIN))
    jobs = [make_job(id="a", origin=ORIGIN), make_job(id="b", origin=ORIGIN)]
    evaluation = make_evaluation(jobs[0])
    cluster.do(
        ApplyRollout(
            rollout=rollout("c1", "a", "b", "old"),
            upserts=[JobUpsert(job=job, expected_modify_index=0) for job in jobs],
            deletions=[JobDeletion("default", "old")],
            evaluations=[evaluation],
        )
    )
    with cluster.see() as snapshot:
        source, stored = snapshot.sources.get("demo"), snapshot.rollouts.get("r1")
        assert snapshot.jobs.keys_of_source("demo") == [("default", "a"), ("default", "b")]
        found = snapshot.evaluations.get(evaluation.id)
        assert [one.id for one in snapshot.rollouts.active()] == ["r1"]
        assert snapshot.rollouts.all("demo", commit_id="c1") == [stored]
    assert source is not None
    assert (source.status.applied_commit, source.status.applied_rollout) == ("c1", "r1")
    assert stored is not None
    assert [job.job_version for job in stored.jobs] == [0, 0, 1]
    assert found is not None
    assert found.job_modify_index == 3


def test_rollout_planned_on_another_commit_changes_nothing(cluster: Cluster) -> None:
    job = make_job(id="a", origin=ORIGIN)
    cluster.do(ApplyRollout(rollout=rollout("c1"), upserts=[]))
    with pytest.raises(ConflictError, match="planned on no commit, but commit c1"):
        cluster.do(ApplyRollout(rollout=rollout("c2", id_="r2"), upserts=[JobUpsert(job=job)]))
    with cluster.see() as snapshot:
        assert snapshot.jobs.all() == []
        assert snapshot.rollouts.get("r2") is None


def test_one_job_that_changed_meanwhile_stops_the_whole_commit(cluster: Cluster) -> None:
    taken = make_job(id="taken")
    cluster.register(taken)
    with pytest.raises(ConflictError, match="job 'taken'"):
        cluster.do(
            ApplyRollout(
                rollout=rollout("c1"),
                upserts=[
                    JobUpsert(job=make_job(id="new"), expected_modify_index=0),
                    JobUpsert(job=make_job(id="taken", priority=9), expected_modify_index=0),
                ],
                evaluations=[make_evaluation()],
            )
        )
    with cluster.see() as snapshot:
        assert [job.id for job in snapshot.jobs.all()] == ["taken"]
        assert snapshot.evaluations.all() == []
        source = snapshot.sources.get("demo")
    assert source is not None
    assert source.status == SourceStatus()
    assert "Job:JobRegistered" not in cluster.noted()[2:], "no event of what did not happen"


def test_new_settings_keep_the_status_of_a_source_and_a_status_keeps_its_commit(
    cluster: Cluster,
) -> None:
    cluster.do(ApplyRollout(rollout=rollout("c1")))
    cluster.do(UpsertSource(source=Source(name="demo", ref="refs/heads/next")))
    status = SourceStatus(applied_commit="forged", seen_commit="c2", last_error="no route")
    cluster.do(UpdateSourceStatus(name="demo", status=status))
    with cluster.see() as snapshot:
        (source,) = snapshot.sources.all()
    assert source.ref == "refs/heads/next"
    assert (source.status.applied_commit, source.status.seen_commit) == ("c1", "c2")
    assert source.create_index < source.modify_index


def test_progress_is_recorded_and_history_outlives_the_source(cluster: Cluster) -> None:
    cluster.do(ApplyRollout(rollout=rollout("c1")))
    healthy = msgspec.structs.replace(rollout("c1"), status="healthy")
    cluster.do(RecordRollout(rollout=healthy), DeleteSource(name="demo"))
    with cluster.see() as snapshot:
        (stored,) = snapshot.rollouts.all("demo", limit=5)
        assert snapshot.rollouts.active() == []
        assert snapshot.sources.all() == []
    assert (stored.status, stored.create_index) == ("healthy", 2)
    cluster.do(DeleteRollouts(ids=["r1"]))
    with cluster.see() as snapshot:
        assert snapshot.rollouts.all() == []
    with pytest.raises(NotFoundError, match="source 'demo'"):
        cluster.do(DeleteSource(name="demo"))


def applied(job_id: str, content: str = "c") -> AppliedJob:
    return AppliedJob("default", job_id, "demo", content, "s")


def test_commit_stores_and_deletes_records_of_jobs_that_run_once(cluster: Cluster) -> None:
    cluster.do(ApplyCommit(rollout=rollout("c1"), remember=[applied("a"), applied("b")]))
    cluster.do(
        ApplyCommit(
            rollout=rollout("c2", id_="r2"),
            expected_commit="c1",
            remember=[applied("a", "d")],
            forget=[("default", "b")],
        )
    )
    with pytest.raises(ConflictError):
        cluster.do(ApplyCommit(rollout=rollout("c3", id_="r3"), remember=[applied("x")]))
    cluster.do(UpdateSourceStatus(name="demo", status=SourceStatus(last_error="no route")))
    with cluster.see() as snapshot:
        (kept,) = snapshot.applied_jobs.of_source("demo")
        source = snapshot.sources.get("demo")
    assert (kept.job_id, kept.content_id) == ("a", "d")
    assert kept.create_index < kept.modify_index
    assert source is not None
    assert source.status.remembers_jobs, "a check of the source does not forget that"


def test_settings_of_a_source_are_refused_if_they_changed_since_they_were_read(
    cluster: Cluster,
) -> None:
    with pytest.raises(ConflictError, match="`orchgit source set demo` changes it"):
        cluster.do(StoreSource(source=Source(name="demo"), expected_modify_index=0))
    with cluster.see() as snapshot:
        known = snapshot.sources.get("demo")
    assert known is not None
    changed = StoreSource(
        source=Source(name="demo", ref="x"), expected_modify_index=known.modify_index
    )
    cluster.do(changed)
    with pytest.raises(ConflictError, match="was changed meanwhile"):
        cluster.do(changed)
    with pytest.raises(NotFoundError, match="it was removed"):
        cluster.do(StoreSource(source=Source(name="gone"), expected_modify_index=7))


def test_removed_source_leaves_its_jobs_and_their_records_to_the_next_source(
    cluster: Cluster,
) -> None:
    cluster.register(make_job(id="web", origin=ORIGIN))
    cluster.do(ApplyCommit(rollout=rollout("c1"), remember=[applied("a")]))
    cluster.do(RemoveSource(name="demo"))
    with cluster.see() as snapshot:
        job = snapshot.jobs.get("default", "web")
        assert snapshot.jobs.keys_of_source("demo") == []
        assert [each.job_id for each in snapshot.applied_jobs.of_source("")] == ["a"]
    assert job is not None
    assert job.origin is not None
    assert (job.origin.source, job.origin.former_source) == ("", "demo")
    assert (job.origin.commit_id, job.version) == ("c1", 0)


def test_owner_of_a_job_is_refused_if_it_changed_since_it_was_read(cluster: Cluster) -> None:
    cluster.register(make_job(id="web", origin=ORIGIN))
    free = SetJobOwner(
        namespace="default", job_id="web", released_from="demo", expected_source="demo"
    )
    cluster.do(free)
    with pytest.raises(ConflictError, match="it was changed meanwhile"):
        cluster.do(free)


def held(job_id: str, rollout_id: str, commit: str = "c1") -> HeldVersion:
    return HeldVersion(
        job_id=job_id, source="demo", spec_id="s", commit_id=commit, rollout_id=rollout_id
    )


def held_by(cluster: Cluster, source: str = "demo") -> dict[str, str]:
    with cluster.see() as snapshot:
        rows = snapshot.held_versions.known_of_source(source)
    return {each.job_id: each.rollout_id for each in rows}


def test_failed_version_is_held_unless_a_later_rollout_changed_the_job(cluster: Cluster) -> None:
    first = rollout("c1", "a", "b")
    first.applied_time_ns = 1
    cluster.do(ApplyStage(rollout=first))
    later = rollout("c2", "b", id_="r2")
    later.applied_time_ns = 2
    cluster.do(ApplyStage(rollout=later, expected_commit="c1"))
    cluster.do(RecordProgress(rollout=first, hold=[held("a", "r1"), held("b", "r1")]))
    assert held_by(cluster) == {"a": "r1"}
    cluster.do(
        ApplyStage(
            rollout=rollout("c3", id_="r3"),
            expected_commit="c2",
            hold=[held("b", "r2")],
            unhold=[("default", "a")],
        )
    )
    assert held_by(cluster) == {"b": "r2"}


def test_reverted_rollout_stays_reverted_and_holds_nothing_more(cluster: Cluster) -> None:
    first = rollout("c1", "a")
    cluster.do(ApplyStage(rollout=first))
    reverted = msgspec.structs.replace(first, status="reverted")
    cluster.do(RecordProgress(rollout=reverted))
    late = msgspec.structs.replace(first, status="failed")
    cluster.do(RecordProgress(rollout=late, hold=[held("a", "r1")]))
    with cluster.see() as snapshot:
        stored = snapshot.rollouts.get("r1")
    assert stored is not None
    assert stored.status == "reverted"
    assert held_by(cluster) == {}


def test_removed_source_leaves_its_held_versions_unless_its_jobs_are_stopped(
    cluster: Cluster,
) -> None:
    cluster.do(ApplyStage(rollout=rollout("c1", "a"), hold=[held("a", "r1")]))
    cluster.do(RemoveSource(name="demo"))
    assert (held_by(cluster), held_by(cluster, "")) == ({}, {"a": "r1"})
    cluster.do(UpsertSource(source=Source(name="other")))
    with cluster.see() as snapshot:
        (left,) = snapshot.held_versions.known_of_source("")
    cluster.do(
        ApplyStage(
            rollout=Rollout(id="r2", source="other", commit=Commit(id="c1")),
            hold=[msgspec.structs.replace(left, source="other")],
        )
    )
    cluster.do(RemoveSource(name="other", stop=True))
    assert (held_by(cluster, "other"), held_by(cluster, "")) == ({}, {})


def test_renewed_job_gets_a_version_though_its_spec_is_the_same(cluster: Cluster) -> None:
    job = make_job(id="a", origin=ORIGIN)
    cluster.register(job)
    again = make_job(id="a", origin=ORIGIN)
    again.task_groups = job.task_groups
    upserts = [JobUpsert(job=again)]
    cluster.do(ApplyStage(rollout=rollout("c1", "a"), upserts=upserts))
    with cluster.see() as snapshot:
        known = snapshot.jobs.get("default", "a")
        assert known is not None
        assert known.version == 0
    cluster.do(
        ApplyStage(
            rollout=rollout("c2", "a", id_="r2"),
            expected_commit="c1",
            upserts=upserts,
            renew=[("default", "a")],
        )
    )
    with cluster.see() as snapshot:
        known = snapshot.jobs.get("default", "a")
        assert known is not None
        assert known.version == 1
