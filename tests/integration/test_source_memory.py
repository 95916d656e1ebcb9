"""Jobs that run once are not repeated, and jobs keep their source: real pushes, real state."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.control.watchers.garbage import GarbageLimits, StateGarbageCollector
from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.commits.applier import CommitApplier
from orchgit.gitops.commits.log_entry import rollout_of, upserts_of
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.source_cache import SourceCache
from orchgit.gitops.parsing.discovery import Discoverer
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.model.job import Job
from orchgit.model.plan import PlanResult, VolumeClaimRequest
from orchgit.replication.commands.gitops import ApplyRollout
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.services.evaluations import evaluation_for_job
from orchgit.services.gitops.sources import give_back_job, put_source, release_job, remove_source
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig, with_demo

KEY = ("default", "migrate")


def service(name: str, text: str = "x") -> str:
    return batch_job(name, text=text).replace('type = "batch"', 'type = "service"')


async def push(
    rig: GitopsRig, work: WorkTree, files: dict[str, str | bytes | None], source: str = "demo"
) -> str:
    """What the person who pushes reads; the rollout has ended."""
    work.commit(files)
    answer = await work.push(rig.url(source))
    assert answer.returncode == 0, answer.output
    return answer.output


async def collected(rig: GitopsRig, job_id: str) -> None:
    """The job completes, and its record is collected."""
    await rig.until(lambda: (job := rig.job(job_id)) is not None and job.status == "dead")
    await StateGarbageCollector(rig.state, rig.context.clock, GarbageLimits()).collect(force=True)
    assert rig.job(job_id) is None


def job(rig: GitopsRig, job_id: str) -> Job:
    found = rig.job(job_id)
    assert found is not None
    return found


def test_collected_batch_job_runs_again_only_when_its_file_changes(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"migrate.hcl": batch_job("migrate"), "web.hcl": service("web")})
        await collected(rig, "migrate")
        said = await push(rig, work, {"README": "a note"})
        assert rig.job("migrate") is None, said
        assert rig.rollouts()[0].jobs == []
        # Neither a comment, nor another place, nor a variable that the file does not use.
        comment = f"# for the record\n{batch_job('migrate')}"
        await push(rig, work, {"migrate.hcl": None, "jobs/migrate.hcl": comment})
        await put_source(rig.context, replace(rig.source(), variables={"unused": "1"}))
        await push(rig, work, {"README": "another note"})
        assert rig.job("migrate") is None
        await push(rig, work, {"jobs/migrate.hcl": batch_job("migrate", text="two")})
        assert job(rig, "migrate").version == 0, "its file changed"
        await collected(rig, "migrate")
        await push(rig, work, {"jobs/migrate.hcl": None})
        await push(rig, work, {"jobs/migrate.hcl": batch_job("migrate", text="two")})
        assert rig.job("migrate") is not None, "its file was gone, and came back"

    with_demo(tmp_path, body)


@pytest.mark.parametrize("purge", [True, False])
def test_manually_stopped_batch_job_stays_stopped_and_service_is_restored(
    tmp_path: Path, purge: bool
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"migrate.hcl": batch_job("migrate"), "web.hcl": service("web")})
        for job_id in ("migrate", "web"):
            await deregister_job(rig.context, "default", job_id, DeregisterOptions(purge=purge))
        await push(rig, work, {"README": "a note"})
        assert not job(rig, "web").stop
        found = rig.job("migrate")
        assert (found is None) if purge else (found is not None and found.stop)

    with_demo(tmp_path, body)


def test_restarted_server_does_not_repeat_finished_jobs(tmp_path: Path) -> None:
    """The memory is in the state, not in the process that applied the commit."""
    work = WorkTree(tmp_path / "work")

    async def first() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            await push(rig, work, {"migrate.hcl": batch_job("migrate")})
            await collected(rig, "migrate")

    async def second() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await push(rig, work, {"README": "a note"})
            assert rig.job("migrate") is None

    asyncio.run(first())
    asyncio.run(second())


def test_rerun_creates_a_finished_job_again(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        with pytest.raises(ConflictError, match="no commit of it was applied"):
            await rig.gitops.rerun("demo", [KEY])
        await push(rig, work, {"migrate.hcl": batch_job("migrate"), "web.hcl": service("web")})
        await collected(rig, "migrate")
        made = await rig.gitops.rerun("demo", [KEY])
        assert [each.job_id for each in made.jobs] == ["migrate"]
        assert made.commit.id == made.previous_commit == rig.source().status.applied_commit
        await rig.until(lambda: job(rig, "migrate").status == "dead")
        # Complete and not collected: a new version runs.
        await rig.gitops.rerun("demo", [KEY])
        assert job(rig, "migrate").version == 2
        await rig.until(lambda: rig.rollouts()[0].is_terminal)
        with pytest.raises(ConflictError, match="only ran jobs"):
            await rig.gitops.revert(rig.rollouts()[0].id)
        with pytest.raises(ConflictError, match="does not end by itself"):
            await rig.gitops.rerun("demo", [("default", "web")])
        with pytest.raises(NotFoundError, match="has no such job in namespace 'other'"):
            await rig.gitops.rerun("demo", [("other", "migrate")])

    with_demo(tmp_path, body)


def test_source_without_records_repeats_no_job_of_its_applied_commit(tmp_path: Path) -> None:
    """An earlier version applied the commit and collected the job: the commit says what it was."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.gitops.sync("demo")
        commit = work.commit({"migrate.hcl": batch_job("migrate")})
        paused = await rig.add_source("demo", paused=True)
        assert (await work.push(rig.url("demo"))).returncode == 0
        await _apply_as_earlier_version(rig, commit)
        assert not rig.source().status.remembers_jobs
        await put_source(rig.context, replace(paused, paused=False))
        await collected(rig, "migrate")
        await push(rig, work, {"README": "a note"})
        assert rig.job("migrate") is None
        assert rig.source().status.remembers_jobs
        await push(rig, work, {"README": "another note"})
        assert rig.job("migrate") is None
        await push(rig, work, {"migrate.hcl": batch_job("migrate", text="two")})
        assert rig.job("migrate") is not None

    with_demo(tmp_path, body)


async def _apply_as_earlier_version(rig: GitopsRig, commit: str) -> None:
    applier, source = CommitApplier(rig.context), rig.source()
    cache = SourceCache(Discoverer(JobspecParser()))
    repository = rig.gitops.mirrors.get("demo").open()
    read = await applier.read(repository, commit, source, cache)
    plan = await applier.plan(read, "demo", cache)
    rollout = rollout_of(plan, read.info.commit, Trigger("push"), "r-old", rig.context.now_ns())
    upserts = upserts_of(plan, rollout, {})
    evaluations = [evaluation_for_job(rig.context, one.job, "job-register") for one in upserts]
    await rig.context.propose(
        ApplyRollout(rollout=rollout, upserts=upserts, evaluations=evaluations)
    )


def test_job_registered_by_hand_keeps_its_source(tmp_path: Path) -> None:
    """Deleting its file stops it, and the claims guard stands before that."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web"), "api.hcl": service("api")})
        mine = replace(job(rig, "web"), origin=None, priority=77)
        done = await register_job(rig.context, mine)
        assert 'job "web" belongs to source "demo"' in done.warnings[-1]
        origin = job(rig, "web").origin
        assert origin is not None
        assert (origin.source, origin.file, origin.commit_id) == ("demo", "web.hcl", "")
        await _claim(rig, "web")
        work.commit({"web.hcl": None})
        refused = await work.push(rig.url("demo"))
        assert "cannot delete job 'web': it owns sticky volume claims" in refused.output
        work.commit({}, "Really\n\nOrchgit-Delete: web")
        assert (await work.push(rig.url("demo"))).returncode == 0
        assert job(rig, "web").stop

    with_demo(tmp_path, body)


async def _claim(rig: GitopsRig, job_id: str) -> None:
    request = VolumeClaimRequest("c1", "default", job_id, "main", "a1", "v1", "data", "")
    result = PlanResult(claims=[request])
    await rig.context.propose(
        ApplyPlan(namespace="default", job_id=job_id, job_version=0, eval_id="", result=result)
    )
    with rig.context.snapshot() as snapshot:
        assert snapshot.volume_claims.all("default", job_id)


def test_released_job_survives_its_file_and_can_be_given_back(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web"), "api.hcl": service("api")})
        await release_job(rig.context, "default", "web")
        said = await push(rig, work, {"web.hcl": service("web", "two")})
        assert "`orchgit source release -undo web` gives it back" in said
        assert job(rig, "web").version == 0, "its file changes nothing"
        await push(rig, work, {"web.hcl": None})
        assert not job(rig, "web").stop
        await give_back_job(rig.context, "default", "web")
        await push(rig, work, {"README": "a note"})
        assert job(rig, "web").stop, "the commit has no file of it"

    with_demo(tmp_path, body)


def test_job_of_another_source_is_refused_until_released_or_removed(tmp_path: Path) -> None:
    """Each refusal names a command: after it the same push is accepted."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web"), "api.hcl": service("api")})
        await rig.add_source("other")
        refused = await work.push(rig.url("other"))
        assert "free it with `orchgit source release web`" in refused.output
        for job_id in ("web", "api"):
            await release_job(rig.context, "default", job_id)
        assert (await work.push(rig.url("other"))).returncode == 0
        origin = job(rig, "web").origin
        assert origin is not None
        assert origin.source == "other"

        await remove_source(rig.context, "other")
        await rig.add_source("third")
        refused = await work.push(rig.url("third"))
        assert "belonged to source 'other', which was removed" in refused.output
        await release_job(rig.context, "default", "web")
        refused = await work.push(rig.url("third"))
        assert "`orchgit source set third -adopt`" in refused.output
        assert "'web'" not in refused.output, "it was freed by itself"
        await put_source(rig.context, replace(rig.source("third"), adopt=True))
        assert (await work.push(rig.url("third"))).returncode == 0
        for job_id in ("web", "api"):
            assert job(rig, job_id).version == 0, "another owner is no other version"

    with_demo(tmp_path, body)


def test_jobs_of_a_removed_source_are_not_repeated_by_the_next(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"migrate.hcl": batch_job("migrate"), "web.hcl": service("web")})
        await collected(rig, "migrate")
        await remove_source(rig.context, "demo")
        await rig.add_source("next", adopt=True)
        await push(rig, work, {}, source="next")
        assert rig.job("migrate") is None
        assert not job(rig, "web").stop
        await push(rig, work, {"web.hcl": None}, source="next")
        assert job(rig, "web").stop, "it is the next source's now"

    with_demo(tmp_path, body)


def test_source_removed_with_stop_stops_its_jobs(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"migrate.hcl": batch_job("migrate"), "web.hcl": service("web")})
        await collected(rig, "migrate")
        await register_job(
            rig.context, replace(job(rig, "web"), id="mine", name="mine", origin=None)
        )
        await remove_source(rig.context, "demo", stop=True)
        assert job(rig, "web").stop
        assert not job(rig, "mine").stop
        with rig.context.snapshot() as snapshot:
            assert (
                snapshot.applied_jobs.of_source("demo") == snapshot.applied_jobs.of_source("") == []
            )
            evaluations = snapshot.evaluations.of_job("default", "web")
        assert [each.triggered_by for each in evaluations].count("job-deregister") == 1

    with_demo(tmp_path, body)
