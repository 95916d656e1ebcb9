"""Mirrors on every server: majorities, catching up, and the loss of the leader's disk and host."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from structlog.testing import capture_logs

from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.limits import GitLimits
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import PATIENT, GitopsCluster, Member, gitops_cluster

SHORT = GitopsConfig(limits=GitLimits(hold_timeout_s=2.0, catch_up_timeout_s=2.0))
"""For what is to be waited for in vain."""
Body = Callable[[GitopsCluster, WorkTree], Awaitable[None]]


def with_cluster(
    directory: Path, body: Body, count: int = 3, config: GitopsConfig = PATIENT
) -> None:
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


async def pushed(work: WorkTree, member: Member) -> None:
    """What is there again is soon found: "try again" is what the refusals say."""
    async with asyncio.timeout(30):
        while (answer := await work.push(member.rig.url("demo"))).returncode != 0:
            assert "try again" in answer.output, answer.output


def test_pushed_commit_survives_the_loss_of_the_leader_and_its_disk(tmp_path: Path) -> None:
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

        successor = await cluster.leader()
        clone = WorkTree(tmp_path / "clone")
        cloned = await clone.run("pull", "--quiet", "--tags", successor.rig.url("demo"), "main")
        assert cloned.returncode == 0, cloned.output
        assert clone.head() == second
        assert clone.git("rev-parse", "v2^{commit}") == second

        newest = successor.rig.rollouts()[0]
        back = await successor.rig.gitops.revert(newest.id)
        assert successor.rig.source().status.applied_commit == back.commit.id
        assert (
            await clone.run("pull", "--quiet", successor.rig.url("demo"), "main")
        ).returncode == 0
        assert clone.git("rev-parse", "HEAD^{tree}") == work.git("rev-parse", f"{first}^{{tree}}")
        third = clone.commit({"web.hcl": batch_job("web", text="three")}, "Three")
        again = await clone.push(successor.rig.url("demo"))
        assert again.returncode == 0, again.output
        assert successor.rig.source().status.applied_commit == third

    with_cluster(tmp_path, body)


def test_push_without_a_majority_is_refused_naming_the_missing_servers(tmp_path: Path) -> None:
    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        one, two = await cluster.followers()
        commit = work.commit({"web.hcl": batch_job("web")})
        await one.ignore_peers()
        await two.ignore_peers()
        answer = await work.push(leader.rig.url("demo"))
        assert answer.returncode != 0
        assert "Waiting until 1 of 2 other servers" in answer.output
        assert "1 of 3 servers have the objects, and 2 must" in answer.output
        assert one.rpc in answer.output
        assert leader.rig.job("web") is None
        assert leader.rig.source().status.applied_commit == ""
        branch = await work.push(leader.rig.url("demo"), ref="HEAD:refs/heads/other")
        assert "cannot store the objects on a majority" in branch.output
        await two.answer_peers()
        await pushed(work, leader)
        assert leader.rig.source().status.applied_commit == commit
        assert two.mirror.open().has_commit(commit)

    with_cluster(tmp_path, body, config=SHORT)


def test_server_that_was_down_catches_up(tmp_path: Path) -> None:
    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        away = (await cluster.followers())[0]
        url = leader.rig.url("demo")
        work.commit({"web.hcl": batch_job("web")})
        await work.push(url)
        await work.push(url, ref="HEAD:refs/heads/old")
        await cluster.caught_up()
        await away.stop()
        work.commit({"web.hcl": batch_job("web", text="two")})
        work.git("tag", "-a", "v1", "-m", "First")
        assert (await work.push(url)).returncode == 0
        assert (await work.push(url, ref="v1")).returncode == 0
        assert (await work.push(url, ref=":refs/heads/old")).returncode == 0
        assert (await work.push(url, ref="HEAD:refs/heads/old/new")).returncode == 0
        await away.start()
        await cluster.caught_up()
        shown = [
            (await work.run("ls-remote", each.rig.url("demo"))).output for each in cluster.members
        ]
        assert shown[0] == shown[1] == shown[2]
        assert "refs/tags/v1^{}" in shown[0]
        assert "refs/heads/old/new" in shown[0]
        assert "refs/orchgit" not in shown[0]

    with_cluster(tmp_path, body)


def test_polled_source_is_reverted_without_its_remote_and_the_former_leader(tmp_path: Path) -> None:
    async def body(cluster: GitopsCluster, host: WorkTree) -> None:
        leader = await cluster.leader()
        host.commit({"web.hcl": batch_job("web")}, "One")
        url = f"file://{host.path}"
        source = await leader.rig.add_source("far", kind="remote", url=url, ref="main")
        await leader.rig.gitops.sync("far")
        bad = host.commit({"web.hcl": batch_job("web", text="bad")}, "Bad")
        await leader.rig.gitops.sync("far")
        assert leader.rig.source("far").status.applied_commit == bad
        for each in await cluster.followers():
            await each.until(lambda each=each: each.rig.source("far").status.applied_commit == bad)
            await each.until_synced("far")
        shutil.rmtree(host.path)
        await lose(leader)
        successor = await cluster.leader()
        rollout = successor.rig.rollouts("far")[0]
        back = await successor.rig.gitops.revert(rollout.id)
        status = successor.rig.source("far").status
        assert (status.applied_commit, status.quarantined) == (back.commit.id, [bad])
        job = successor.rig.job("web")
        assert job is not None
        assert not job.stop
        await successor.rig.gitops.sync("far")
        assert "cannot read" in successor.rig.source("far").status.last_error
        after = successor.rig.job("web")
        assert after is not None
        assert (after.job_modify_index, after.stop) == (job.job_modify_index, False)
        assert source.name == "far"

    with_cluster(tmp_path, body)


def test_leader_that_lacks_objects_waits_for_them_and_deletes_nothing(tmp_path: Path) -> None:
    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        behind, other = await cluster.followers()
        known = dict(behind.peers.addresses)
        await behind.ignore_peers()
        for raft in known:
            behind.peers.addresses[raft] = "127.0.0.1:1"
        commit = work.commit({"web.hcl": batch_job("web")})
        assert (await work.push(leader.rig.url("demo"))).returncode == 0
        await leader.rig.state.cluster.transfer_leadership(behind.raft)
        await behind.until(lambda: behind.rig.state.cluster.is_leader)
        await behind.rig.gitops.sync("demo")
        error = behind.rig.source().status.last_error
        assert f"lacks commit {commit[:12]} and is fetching it" in error
        cloned = await work.run("ls-remote", behind.rig.url("demo"))
        assert cloned.returncode != 0
        work.commit({"web.hcl": batch_job("web", text="two")})
        refused = await work.push(behind.rig.url("demo"))
        assert refused.returncode != 0
        job = behind.rig.job("web")
        assert job is not None
        assert not job.stop

        behind.peers.addresses.update(known)
        await behind.answer_peers()
        await pushed(work, behind)
        await behind.until(lambda: not behind.rig.source().status.last_error)
        await cluster.caught_up()
        assert other.mirror.open().resolve("refs/heads/main") == work.head()

    with_cluster(tmp_path, body, config=SHORT)


def test_server_that_lost_its_mirrors_fetches_them(tmp_path: Path) -> None:
    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        work.commit({"web.hcl": batch_job("web")})
        await work.push(leader.rig.url("demo"))
        victim = (await cluster.followers())[0]
        await cluster.caught_up()
        await victim.stop()
        shutil.rmtree(victim.directory / "git")
        await victim.start()
        await victim.until(lambda: victim.rig.source().status.applied_commit == work.head())
        await victim.until_synced()
        counts = victim.rig.gitops.exchange.counts
        assert (counts.fetches, counts.failed_fetches) == (1, 0)
        assert victim.rig.gitops.synchronizer.lacking_objects == 0
        listed = await work.run("ls-remote", victim.rig.url("demo"), "refs/heads/main")
        assert listed.output.split()[0] == work.head()

    with_cluster(tmp_path, body)


def test_mirror_is_restored_from_one_server_with_the_objects(tmp_path: Path) -> None:
    """Two of three come back without their mirrors: each also asks one that has nothing."""

    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        work.commit({"web.hcl": batch_job("web")})
        await work.push(leader.rig.url("demo"))
        await cluster.caught_up()
        for member in cluster.members:
            await member.stop()
        for member in cluster.members[1:]:
            shutil.rmtree(member.directory / "git")
        await asyncio.gather(*(member.start() for member in cluster.members))
        await cluster.caught_up()
        for member in cluster.members:
            assert member.mirror.open().resolve("refs/heads/main") == work.head()

    with_cluster(tmp_path, body)


def test_objects_lost_by_every_server_are_logged_once_and_rarely_requested(
    tmp_path: Path,
) -> None:
    """It comes back with a push of the history, to every server, long before it is asked for."""

    async def body(cluster: GitopsCluster, work: WorkTree) -> None:
        leader = await cluster.leader()
        work.commit({"web.hcl": batch_job("web")})
        await pushed(work, leader)
        await cluster.caught_up()
        for member in cluster.members:
            await member.stop()
            shutil.rmtree(member.directory / "git")
        await asyncio.gather(*(member.start() for member in cluster.members))
        leader = await cluster.leader()
        for member in cluster.members:
            gitops = member.rig.gitops
            await member.until(
                lambda gitops=gitops: (
                    gitops.synchronizer.lacking_objects > 0 and gitops.exchange.counts.fetches > 5
                )
            )
        asked = [member.rig.gitops.exchange.counts.fetches for member in cluster.members]
        for member in cluster.members:
            for _ in range(20):
                await member.rig.gitops.synchronizer.wait_until_current("demo")
        again = [member.rig.gitops.exchange.counts.fetches for member in cluster.members]
        assert sum(again) - sum(asked) < 20, "it is known to be lost"
        assert str(logged).count("objects are lost") == 3
        await pushed(work, leader)
        await cluster.caught_up()
        for member in cluster.members:
            assert member.rig.gitops.synchronizer.lacking_objects == 0
            assert member.mirror.open().resolve("refs/heads/main") == work.head()

    with capture_logs() as logged:
        with_cluster(tmp_path, body)
