"""Stages of a commit on real state and real git: when each is applied, and what stops them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.errors import ConflictError
from orchgit.model.evaluation import EvalStatus
from orchgit.model.rollout import Rollout, RolloutJob
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.gitops import ApplyStage, RecordProgress
from orchgit.replication.commands.servers import PutServer
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.services.gitops.pauses import pause_source, resume_source
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import gitops_cluster
from tests.support.gitops_rig import GitopsRig, gitops_rig
from tests.support.polling import until


class Staged:
    """A source whose jobs ask for no allocations: each is healthy once its evaluation is done."""

    def __init__(self, rig: GitopsRig, work: WorkTree) -> None:
        self.rig = rig
        self.work = work

    async def push(self, files: dict[str, str | bytes | None], subject: str = "change") -> str:
        commit = self.work.commit(files, subject)
        answer = await self.work.push(self.rig.url("demo"), "detach")
        assert answer.returncode == 0, answer.output
        return commit

    async def evaluate(self, job_id: str, status: EvalStatus = EvalStatus.COMPLETE) -> None:
        """Ends the pending evaluations of a job, as a scheduler would."""
        with self.rig.context.snapshot() as snapshot:
            pending = snapshot.evaluations.of_job("default", job_id)
        done = [replace(each, status=status) for each in pending if not each.is_terminal]
        await self.rig.state.propose(UpsertEvaluations(now_ns=1, evaluations=done))

    def rollout(self, commit: str) -> Rollout:
        return next(each for each in self.rig.rollouts() if each.commit.id == commit)

    def job(self, commit: str, job_id: str) -> RolloutJob:
        return next(job for job in self.rollout(commit).jobs if job.job_id == job_id)

    async def until_job(self, commit: str, job_id: str, status: str) -> RolloutJob:
        await self.rig.until(lambda: self.job(commit, job_id).status == status)
        return self.job(commit, job_id)

    async def until_registered(self, job_id: str) -> None:
        await self.rig.until(lambda: self.rig.job(job_id) is not None)


@asynccontextmanager
async def staged(tmp_path: Path) -> AsyncIterator[Staged]:
    async with gitops_rig(tmp_path / "data", evaluate=False) as rig:
        await rig.add_source()
        yield Staged(rig, WorkTree(tmp_path / "work"))


def run(tmp_path: Path, test: Callable[[Staged], Coroutine[None, None, None]]) -> None:
    async def running() -> None:
        async with staged(tmp_path) as found:
            await test(found)

    asyncio.run(running())


def service(name: str, text: str = "1") -> str:
    """A service that asks for no allocations."""
    return batch_job(name, text=text).replace('  type = "batch"\n', "")


CHAIN: dict[str, str | bytes | None] = {
    "orchgit.hcl": 'job "b" { depends_on = ["a"] }\njob "c" { depends_on = ["b"] }\n',
    "a.nomad": batch_job("a"),
    "b.nomad": batch_job("b"),
    "c.nomad": batch_job("c"),
}


def test_each_stage_is_one_entry_of_the_same_rollout(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        waiting = await demo.until_job(commit, "b", "waiting")
        assert waiting.description == "waits for a (complete)"
        assert demo.rig.job("b") is None
        assert demo.rig.source().status.applied_commit == commit
        for name in ("a", "b", "c"):
            await demo.until_registered(name)
            await demo.evaluate(name)
        await demo.rig.until(lambda: demo.rollout(commit).status == "healthy")
        jobs = [demo.rig.job(name) for name in ("a", "b", "c")]
        assert [job.version for job in jobs if job] == [0, 0, 0]
        assert {job.origin.rollout_id for job in jobs if job and job.origin} == {
            demo.rollout(commit).id
        }
        assert len({job.create_index for job in jobs if job}) == 3

    run(tmp_path, test)


def test_failed_stage_leaves_the_later_ones_to_the_next_commit(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        await demo.evaluate("a", EvalStatus.FAILED)
        skipped = await demo.until_job(commit, "b", "skipped")
        assert skipped.description == "not applied: a failed"
        await demo.rig.until(lambda: demo.rollout(commit).status == "failed")
        assert demo.rollout(commit).status_description == (
            "failed: a (evaluation failed); not applied: b, c"
        )
        assert demo.rig.job("b") is None
        repaired = await demo.push({"a.nomad": batch_job("a", text="repaired")})
        assert [job.job_id for job in demo.rollout(repaired).jobs] == ["a", "b", "c"]
        await demo.evaluate("a")
        await demo.until_registered("b")

    run(tmp_path, test)


def test_newer_commit_takes_over_what_waits(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        first = await demo.push(CHAIN)
        second = await demo.push({"c.nomad": batch_job("c", text="newer")})
        replaced = await demo.until_job(first, "b", "superseded")
        assert replaced.description == f"not applied: replaced by commit {second[:8]}"
        assert {job.job_id: job.status for job in demo.rollout(second).jobs} == {
            "b": "waiting",
            "c": "waiting",
        }
        await demo.evaluate("a")
        await demo.until_registered("b")
        await demo.evaluate("b")
        await demo.until_registered("c")
        job = demo.rig.job("c")
        assert job is not None
        assert job.version == 0
        assert job.task_groups[0].tasks[0].config["args"] == ["newer"]

    run(tmp_path, test)


def test_commit_whose_changes_do_not_depend_on_each_other_is_one_entry(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(
            {
                "orchgit.hcl": 'job "b" { depends_on = ["a:registered"] }\n',
                "a.nomad": batch_job("a"),
                "b.nomad": batch_job("b"),
            }
        )
        await demo.until_registered("b")
        for name in ("a", "b"):
            await demo.evaluate(name)
        await demo.rig.until(lambda: demo.rollout(commit).is_terminal)
        both = await demo.push(
            {"b.nomad": batch_job("b", text="2"), "c.nomad": batch_job("c"), "a.nomad": None}
            | {"orchgit.hcl": None}
        )
        rollout = demo.rollout(both)
        assert {(job.job_id, job.stage) for job in rollout.jobs} == {("b", 0), ("c", 0), ("a", 0)}
        job = demo.rig.job("c")
        assert job is not None
        assert job.create_index == rollout.create_index

    run(tmp_path, test)


def test_dependency_that_a_person_changes_is_judged_as_it_runs(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        job = demo.rig.job("a")
        assert job is not None
        group = replace(job.task_groups[0], meta={"by": "hand"})
        await register_job(demo.rig.context, replace(job, task_groups=[group]))
        await demo.until_job(commit, "a", "overridden")
        assert demo.job(commit, "b").status == "waiting"
        await demo.evaluate("a")
        await demo.until_registered("b")

    run(tmp_path, test)


def test_hook_that_a_person_stops_is_not_complete(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push({**CHAIN, "a.nomad": batch_job("a", count=1)})
        await deregister_job(demo.rig.context, "default", "a", DeregisterOptions())
        skipped = await demo.until_job(commit, "b", "skipped")
        assert skipped.description == (
            "not applied: a (complete) failed: stopped before its work was complete"
        )

    run(tmp_path, test)


def test_stage_whose_objects_are_missing_says_so_in_the_rollout_and_goes_on_with_them(
    tmp_path: Path,
) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        objects = demo.rig.gitops.mirrors.get("demo").path / "objects"
        kept = objects.rename(tmp_path / "objects")
        (objects / "pack").mkdir(parents=True)
        await demo.evaluate("a")
        await demo.rig.until(
            lambda: demo.job(commit, "b").description.startswith("cannot be applied yet: ")
        )
        assert demo.job(commit, "b").status == "waiting"
        shutil.rmtree(objects)
        kept.rename(objects)
        await demo.until_registered("b")

    run(tmp_path, test)


def test_paused_source_applies_no_further_stage_until_it_is_resumed(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        await pause_source(demo.rig.context, "demo")
        await demo.evaluate("a")
        await demo.rig.until(
            lambda: demo.job(commit, "b").description == "waits until source demo is resumed"
        )
        assert demo.rig.job("b") is None
        await resume_source(demo.rig.context, "demo")
        await demo.until_registered("b")

    run(tmp_path, test)


def test_stage_whose_job_another_source_took_fails_the_rollout(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        await demo.rig.add_source("other")
        other = WorkTree(demo.work.path.parent / "other")
        other.commit({"b.nomad": batch_job("b", text="other")})
        answer = await other.push(demo.rig.url("other"), "detach")
        assert answer.returncode == 0, answer.output
        await demo.evaluate("a")
        failed = await demo.until_job(commit, "b", "failed")
        assert "belongs to source 'other'" in failed.description
        assert (await demo.until_job(commit, "c", "skipped")).description == (
            "not applied: b failed"
        )

    run(tmp_path, test)


def test_deletions_come_when_everything_else_is_healthy(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        await demo.push({"old.nomad": batch_job("old")})
        await demo.evaluate("old")
        commit = await demo.push({**CHAIN, "old.nomad": None}, "Orchgit-Delete: old")
        assert demo.job(commit, "old").stage == 3
        for name in ("a", "b"):
            await demo.until_registered(name)
            await demo.evaluate(name)
        await demo.until_registered("c")
        old = demo.rig.job("old")
        assert old is not None
        assert not old.stop
        await demo.evaluate("c")
        await demo.rig.until(lambda: getattr(demo.rig.job("old"), "stop", False))

    run(tmp_path, test)


def test_stale_stage_and_stale_progress_are_refused(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        commit = await demo.push(CHAIN)
        await demo.until_job(commit, "b", "waiting")
        await demo.rig.until(lambda: demo.rollout(commit).status == "progressing")
        rollout = demo.rollout(commit)
        for index in (rollout.modify_index - 1, rollout.modify_index + 100):
            stage = ApplyStage(
                now_ns=1, rollout=rollout, expected_commit=commit, expected_rollout_index=index
            )
            with pytest.raises(ConflictError, match="recorded by another writer"):
                await demo.rig.state.propose(stage)
            progress = RecordProgress(now_ns=1, rollout=rollout, expected_modify_index=index)
            with pytest.raises(ConflictError, match="recorded by another writer"):
                await demo.rig.state.propose(progress)
        await demo.push({"d.nomad": batch_job("d")})
        await demo.until_job(commit, "b", "superseded")
        latest = demo.rollout(commit)
        stage = ApplyStage(
            now_ns=1,
            rollout=latest,
            expected_commit=demo.rig.source().status.applied_commit,
            expected_rollout_index=latest.modify_index,
        )
        with pytest.raises(ConflictError, match="replaced it"):
            await demo.rig.state.propose(stage)

    run(tmp_path, test)


def test_job_that_waits_or_was_skipped_is_no_drift(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        def drifted() -> set[str]:
            with demo.rig.context.snapshot() as snapshot:
                return {each.job_id for each in snapshot.drifted_jobs.all("demo")}

        await demo.push({"old.nomad": batch_job("old"), "b.nomad": service("b")})
        commit = await demo.push({**CHAIN, "b.nomad": service("b", "2"), "old.nomad": None})
        await demo.until_job(commit, "b", "waiting")
        job = demo.rig.job("a")
        assert job is not None
        await register_job(demo.rig.context, replace(job, priority=90))
        await demo.rig.until(lambda: drifted() == {"a"})
        await demo.evaluate("a", EvalStatus.FAILED)
        assert drifted() == {"a"}

    run(tmp_path, test)


def test_commit_of_too_many_stages_is_refused_with_the_limit(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        files = {f"j{n}.nomad": batch_job(f"j{n}") for n in range(101)}
        rules = [f'job "j{n + 1}" {{ depends_on = ["j{n}"] }}' for n in range(100)]
        demo.work.commit({**files, "orchgit.hcl": "\n".join(rules)})
        answer = await demo.work.push(demo.rig.url("demo"))
        assert answer.returncode != 0
        assert "cannot apply this commit in 101 stages: the limit is 100" in answer.output

    run(tmp_path, test)


def test_batch_job_that_waits_is_not_recorded_as_run(tmp_path: Path) -> None:
    async def test(demo: Staged) -> None:
        await demo.push(CHAIN)

        def recorded() -> set[str]:
            with demo.rig.context.snapshot() as snapshot:
                return {each.job_id for each in snapshot.applied_jobs.of_source("demo")}

        assert recorded() == {"a"}
        await demo.evaluate("a")
        await demo.until_registered("b")
        assert recorded() == {"a", "b"}

    run(tmp_path, test)


def test_new_leader_applies_what_is_left_and_earlier_versions_refuse_stages(tmp_path: Path) -> None:
    async def test() -> None:
        async with gitops_cluster(tmp_path / "cluster") as cluster:
            leader = await cluster.leader()
            await leader.rig.add_source()
            work = WorkTree(tmp_path / "work")
            # The service a asks for an allocation that no agent places: its stage stays closed. A
            # batch job without one is over as soon as its evaluation is.
            service = batch_job("a", count=1).replace('"batch"', '"service"')
            assert '"service"' in service
            commit = work.commit({**CHAIN, "a.nomad": service})
            answer = await work.push(leader.rig.url("demo"), "detach")
            assert answer.returncode != 0
            assert "upgrade every server first" in answer.output  # without the order it may harm
            for member in cluster.members:
                record = ServerRecord(member.raft, command_version=COMMAND_VERSION)
                await leader.rig.state.propose(PutServer(server=record))
            leader = await cluster.leader()
            answer = await work.push(leader.rig.url("demo"), "detach")
            assert answer.returncode == 0, answer.output
            await cluster.caught_up()
            await leader.stop()

            successor = await cluster.leader()
            rig = successor.rig
            [rollout] = rig.rollouts()
            assert [job.status for job in rollout.jobs][1:] == ["waiting", "waiting"]
            job = rig.job("a")
            assert job is not None
            group = replace(job.task_groups[0], count=0)
            await register_job(rig.context, replace(job, task_groups=[group]))
            await until(lambda: rig.rollouts()[0].is_terminal or None)
            [rollout] = rig.rollouts()
            assert [job.status for job in rollout.jobs][1:] == ["healthy", "healthy"]
            assert rollout.commit.id == commit
            registered = [rig.job("b"), rig.job("c")]
            assert [job.version for job in registered if job is not None] == [0, 0]

    asyncio.run(test())
