"""A renamed source keeps its jobs, their records, its history and its repository."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.errors import ConflictError, InvalidInputError, NotFoundError, RefusedError
from orchgit.model.gates import GatePolicy
from orchgit.model.ownership import owner_of
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.services.gitops.source_rename import rename_source
from orchgit.services.gitops.sources import (
    change_source,
    give_back_job,
    release_job,
    remove_source,
)
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig, with_demo


def service(name: str, text: str = "one") -> str:
    return batch_job(name, text=text).replace('type = "batch"', 'type = "service"')


def drifted(rig: GitopsRig) -> dict[str, tuple[str, str]]:
    with rig.context.snapshot() as snapshot:
        return {each.job_id: (each.source, each.kind) for each in snapshot.drifted_jobs.all()}


async def set_by_hand(rig: GitopsRig, job_id: str, priority: int) -> None:
    job = rig.job(job_id)
    assert job is not None
    upsert = JobUpsert(replace(job, priority=priority))
    await rig.state.propose(RegisterJob(now_ns=1, upsert=upsert))


def test_renamed_source_owns_its_jobs_records_and_branch_without_a_push(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("after", depends_on=["demo"])
        names = ("web", "api", "free", "gone")
        files = {f"{name}.hcl": service(name) for name in names}
        work.commit({**files, "once.hcl": batch_job("once")})
        answer = await work.push(rig.url("demo"), "detach")
        assert answer.returncode == 0, answer.output
        await rig.until(lambda: rig.rollouts()[0].status == "healthy")
        first = work.head()
        work.commit({"web.hcl": service("web", "two")})
        await work.push(rig.url("demo"), "detach")
        reverted = await rig.gitops.rollback("demo", first)
        await set_by_hand(rig, "api", 60)
        await release_job(rig.context, "default", "free")
        await deregister_job(rig.context, "default", "gone", DeregisterOptions())
        wanted = {"api": ("demo", "changed"), "gone": ("demo", "stopped")}
        await rig.until(lambda: drifted(rig) == wanted)

        await rename_source(rig.context, "demo", "shop")
        jobs = {name: rig.job(name) for name in names}
        owners = {name: owner_of(job) for name, job in jobs.items()}
        assert owners == {"web": "shop", "api": "shop", "free": "", "gone": "shop"}
        assert drifted(rig) == {name: ("shop", kind) for name, (_, kind) in wanted.items()}
        source = rig.source("shop")
        assert (source.repository_name, source.status.applied_commit) == (
            "demo",
            reverted.commit.id,
        )
        assert [each.source for each in rig.rollouts("shop")] == ["shop"] * 3
        assert rig.rollouts("demo") == []
        assert rig.source("after").depends_on == ["shop"]
        with rig.context.snapshot() as snapshot:
            assert snapshot.sources.get("demo") is None
            assert [each.job_id for each in snapshot.held_versions.known_of_source("shop")] == [
                "web"
            ]
            assert [each.job_id for each in snapshot.applied_jobs.of_source("shop")] == ["once"]

        await give_back_job(rig.context, "default", "free")
        assert owner_of(rig.job("free")) == "shop"
        await work.run("pull", "--no-rebase", rig.url("demo"), "main")
        work.commit({"api.hcl": service("api", "three")})
        pushed = await work.push(rig.url("demo"), "detach")
        assert pushed.returncode == 0, pushed.output
        assert rig.source("shop").status.applied_commit == work.head()
        await rig.until(lambda: not drifted(rig))  # the commit puts back what was stopped

    with_demo(tmp_path, body)


def test_commit_that_waits_for_its_second_approval_keeps_the_first(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await change_source(
            rig.context, "demo", lambda each: replace(each, gates=GatePolicy(approvals=2))
        )
        commit = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"), "detach")
        waiting = rig.rollout_of(commit)
        await rig.gitops.approve(waiting.id, waiting.plan_hash, "Grace")
        await rename_source(rig.context, "demo", "shop")
        assert (await rig.gitops.sync("shop")).result == "waiting"
        await rig.gitops.approve(waiting.id, waiting.plan_hash, "Edsger")
        await rig.until(lambda: owner_of(rig.job("a")) == "shop")
        assert rig.rollouts("shop")[0].id == waiting.id

    with_demo(tmp_path, body)


def test_remote_source_heals_and_follows_its_remote_under_its_new_name(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        work.commit({"web.hcl": service("web")})
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source(kind="remote", url=f"file://{work.path}", ref="main")
            await rig.gitops.sync("demo")
            await rename_source(rig.context, "demo", "shop")
            assert (rig.source("shop").repository_name, owner_of(rig.job("web"))) == (
                "shop",
                "shop",
            )
            assert (await rig.gitops.sync("shop")).result == "unchanged"
            commit = work.commit({"web.hcl": service("web", "two")})
            assert (await rig.gitops.sync("shop")).result == "applied"
            assert rig.source("shop").status.applied_commit == commit
            # The name is free for another source of another repository.
            await rig.add_source(kind="remote", url=f"file://{work.path}", ref="main")

    asyncio.run(run())


def test_name_that_is_taken_or_is_none_is_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("other")
        work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("other"), "detach")
        with pytest.raises(ConflictError, match="there is a source named 'other'"):
            await rename_source(rig.context, "demo", "other")
        await remove_source(rig.context, "other")
        with pytest.raises(RefusedError, match="is kept under the name 'other'"):
            await rename_source(rig.context, "demo", "other")
        with pytest.raises(InvalidInputError, match="a name has 1-64"):
            await rename_source(rig.context, "demo", "No Name")
        with pytest.raises(NotFoundError, match="cannot find source 'none'"):
            await rename_source(rig.context, "none", "new")
        await rename_source(rig.context, "demo", "new")
        await rename_source(rig.context, "new", "demo")
        assert rig.source("demo").repository == ""

    with_demo(tmp_path, body)
