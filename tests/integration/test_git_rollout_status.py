"""What a rollout's end is called when its jobs changed again before they were healthy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from orchgit.model.evaluation import EvalStatus
from orchgit.model.rollout import Rollout, RolloutJob
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.services.gitops.rollouts import record_rollout
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from tests.support.earlier_members import with_member_of
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree], Awaitable[None]]


def without_schedulers(directory: Path, body: Body) -> None:
    """A built-in source whose rollouts stay open: no evaluation is ever done."""

    async def run() -> None:
        async with gitops_rig(directory / "data", evaluate=False) as rig:
            await rig.add_source()
            await body(rig, WorkTree(directory / "work"))

    asyncio.run(run())


def rollout(rig: GitopsRig, commit: str) -> Rollout:
    [found] = [each for each in rig.rollouts() if each.commit.id == commit]
    return found


def test_rollout_whose_jobs_a_newer_commit_changed_is_superseded(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"), "detach")
        second = work.commit({"a.hcl": batch_job("a", text="new")})
        await work.push(rig.url("demo"), "detach")
        await rig.until(lambda: rollout(rig, first).is_terminal)
        ended = rollout(rig, first)
        assert ended.status == "superseded"
        assert ended.status_description.startswith("changed by a newer commit")
        [job] = ended.jobs
        assert (job.status, job.description) == (
            "superseded",
            f"replaced by commit {second[:8]}",
        )
        assert not rollout(rig, second).is_terminal

    without_schedulers(tmp_path, body)


def test_rollout_whose_job_was_changed_by_hand_is_degraded(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        commit = work.commit({"a.hcl": batch_job("a"), "b.hcl": batch_job("b")})
        await work.push(rig.url("demo"), "detach")
        work.commit({"b.hcl": batch_job("b", text="new")})
        await work.push(rig.url("demo"), "detach")
        job = rig.job("a")
        assert job is not None
        await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(replace(job, priority=77))))
        await rig.until(lambda: rollout(rig, commit).is_terminal)
        ended = rollout(rig, commit)
        assert ended.status == "degraded"
        assert ended.status_description == "changed by hand before they were healthy: a"
        assert {each.job_id: each.status for each in ended.jobs} == {
            "a": "overridden",
            "b": "superseded",
        }

    without_schedulers(tmp_path, body)


def test_superseded_is_recorded_as_degraded_while_a_member_would_not_end_it(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        ended = Rollout(id="r1", source="demo", status="superseded", finished_time_ns=1)
        await record_rollout(with_member_of(3, rig.context), ended)
        assert rig.rollouts()[0].status == "degraded"
        await record_rollout(rig.context, ended)
        assert rig.rollouts()[0].status == "superseded"

    without_schedulers(tmp_path, body)


def test_jobs_of_a_large_commit_that_wait_for_the_scheduler_are_judged_as_those_of_a_small_one(
    tmp_path: Path,
) -> None:
    """From so many jobs on, those whose evaluations are pending are not looked at one by one."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        names = [f"job-{number:03}" for number in range(205)]
        work.commit({f"{name}.nomad": batch_job(name) for name in names})
        assert (await work.push(rig.url("demo"), "detach")).returncode == 0

        def jobs() -> dict[str, RolloutJob]:
            return {job.job_id: job for job in rig.rollouts()[0].jobs}

        await rig.until(lambda: jobs()["job-000"].description == "scheduling...")
        assert {(job.status, job.description) for job in jobs().values()} == {
            ("progressing", "scheduling...")
        }
        await deregister_job(rig.context, "default", "job-001", DeregisterOptions())
        await rig.until(lambda: jobs()["job-001"].status == "overridden")
        with rig.context.snapshot() as snapshot:
            pending = snapshot.evaluations.of_status(EvalStatus.PENDING)
        done = [replace(each, status=EvalStatus.COMPLETE) for each in pending]
        await rig.state.propose(UpsertEvaluations(now_ns=1, evaluations=done))
        await rig.until(lambda: rig.rollouts()[0].is_terminal)
        assert jobs()["job-204"].status == "healthy"
        assert jobs()["job-001"].status == "overridden"

    without_schedulers(tmp_path, body)
