"""Git data on every server: pushes, fail-over with the leader's disk and the git host gone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from orchgit.gitops.config import GitopsConfig
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import QUICK, GitopsCluster, Member, gitops_cluster

Body = Callable[[GitopsCluster, WorkTree], Awaitable[None]]


def with_cluster(directory: Path, body: Body, count: int = 3, config: GitopsConfig = QUICK) -> None:
    """A built-in source `demo` and a work tree of its own."""

    async def run() -> None:
        async with gitops_cluster(directory, count, config) as cluster:
            leader = await cluster.leader()
            await leader.rig.add_source()
            await body(cluster, WorkTree(directory / "work"))

    asyncio.run(run())


async def lose(member: Member) -> None:
    """The machine is gone, with its disk."""
    await member.stop()
    shutil.rmtree(member.directory)


def test_what_was_pushed_survives_the_leader_and_its_disk(tmp_path: Path) -> None:
    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        first = work.commit({"web.hcl": batch_job("web")}, "One")
        await work.push(leader.rig.url("demo"))
        second = work.commit({"web.hcl": batch_job("web", text="two")}, "Two")
        work.git("tag", "-a", "v2", "-m", "Two")
        answer = await work.push(leader.rig.url("demo"))
        assert answer.returncode == 0, answer.output
        assert (await work.push(leader.rig.url("demo"), ref="v2")).returncode == 0
        await lose(leader)

        heir = await cluster.leader()
        clone = WorkTree(tmp_path / "clone")
        cloned = await clone.run("pull", "--quiet", "--tags", heir.rig.url("demo"), "main")
        assert cloned.returncode == 0, cloned.output
        assert clone.head() == second
        assert clone.git("rev-parse", "v2^{commit}") == second

        newest = heir.rig.rollouts()[0]
        back = await heir.rig.gitops.revert(newest.id)
        assert heir.rig.source().status.applied_commit == back.commit.id
        assert (await clone.run("pull", "--quiet", heir.rig.url("demo"), "main")).returncode == 0
        assert clone.git("rev-parse", "HEAD^{tree}") == work.git("rev-parse", f"{first}^{{tree}}")
        third = clone.commit({"web.hcl": batch_job("web", text="three")}, "Three")
        again = await clone.push(heir.rig.url("demo"))
        assert again.returncode == 0, again.output
        assert heir.rig.source().status.applied_commit == third

    with_cluster(tmp_path, body)
