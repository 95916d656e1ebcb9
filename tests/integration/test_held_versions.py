"""Held versions and rollbacks on a real state with real git: what was taken back stays back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchgit.errors import ConflictError, JobFileError, NotFoundError
from orchgit.gitops.commits.rerun import RetryRequest
from orchgit.gitops.commits.rollback import RollbackRequest
from orchgit.jobdiff.spec import bare_spec
from orchgit.model.evaluation import EvalStatus
from orchgit.model.held_version import HeldVersion
from orchgit.model.ownership import owner_of
from orchgit.model.plan import PlanResult, VolumeClaimRequest
from orchgit.model.rollout import Rollout
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.commands.servers import PutServer
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.services.gitops.sources import release_job, remove_source
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from tests.support.factories import make_deployment
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import gitops_cluster
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree], Awaitable[None]]
LONG_NS = 3600 * 10**9
ADA = RollbackRequest(by="Ada Byron", email="ada@example.com", reason="breaks the login")


def with_rig(directory: Path, body: Body, **source: object) -> None:
    async def run() -> None:
        async with gitops_rig(directory / "data", evaluate=False) as rig:
            work = WorkTree(directory / "work")
            if source.get("kind") == "local":
                source["url"] = str(work.path)
            await rig.add_source("demo", **source)
            await body(rig, work)

    asyncio.run(run())


REMOTE = {"kind": "local", "ref": "main", "poll_interval_ns": LONG_NS}


def service(name: str, text: str = "one") -> str:
    return batch_job(name, text=text).replace('type = "batch"', 'type = "service"')


async def judged(rig: GitopsRig, failing: Collection[str] = ()) -> Rollout:
    """Stands for the schedulers, until the newest rollout has ended."""
    while True:
        with rig.context.snapshot() as snapshot:
            pending = snapshot.evaluations.of_status(EvalStatus.PENDING)
        done = [
            replace(
                each,
                status=EvalStatus.FAILED if each.job_id in failing else EvalStatus.COMPLETE,
                status_description="no node is left" if each.job_id in failing else "",
            )
            for each in pending
        ]
        if not done:
            break
        await rig.state.propose(UpsertEvaluations(now_ns=1, evaluations=done))
    await rig.until(lambda: rig.rollouts()[0].is_terminal)
    return rig.rollouts()[0]


async def push(
    rig: GitopsRig,
    work: WorkTree,
    files: dict[str, str | bytes | None],
    failing: Collection[str] = (),
    message: str = "change",
) -> str:
    """Commits and pushes; returns what the person reads. The rollout has ended."""
    work.commit(files, message)
    answer = await work.push(rig.url("demo"), "detach")
    assert answer.returncode == 0, answer.output
    await judged(rig, failing)
    return answer.output


async def follow(
    rig: GitopsRig,
    work: WorkTree,
    files: dict[str, str | bytes | None],
    failing: Collection[str] = (),
    message: str = "change",
) -> str:
    """Commits to the remote; the source applies it, and its rollout has ended."""
    commit = work.commit(files, message)
    await rig.gitops.sync("demo")
    assert rig.source().status.applied_commit == commit
    await judged(rig, failing)
    return commit


async def plan(rig: GitopsRig, job_id: str, **result: Any) -> None:
    """Commits a scheduler's plan for the job."""
    job = rig.job(job_id)
    assert job is not None
    entry = ApplyPlan(
        now_ns=1,
        namespace="default",
        job_id=job_id,
        job_version=job.version,
        eval_id="",
        result=PlanResult(**result),
    )
    await rig.state.propose(entry)


async def by_hand(rig: GitopsRig, job_id: str, version: int) -> None:
    """Registers an earlier version again, as `job revert` does."""
    with rig.context.snapshot() as snapshot:
        job = snapshot.job_versions.get("default", job_id, version)
    assert job is not None
    await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(replace(job, stop=False))))


def text_of(rig: GitopsRig, job_id: str) -> str:
    """What the registered version prints; '' for a job that is not there."""
    job = rig.job(job_id)
    if job is None or job.stop:
        return ""
    return str(job.task_groups[0].tasks[0].config["args"][0])


def held(rig: GitopsRig) -> dict[str, HeldVersion]:
    with rig.context.snapshot() as snapshot:
        return {each.job_id: each for each in snapshot.held_versions.of_source("demo")}


def test_failed_version_that_was_replaced_by_hand_stays_away(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web"), "b.hcl": service("b")})
        await push(rig, work, {"web.hcl": service("web", "two")}, failing=["web"])
        bad = work.head()
        await by_hand(rig, "web", 0)
        for number in range(2):
            shown = await push(rig, work, {"README": str(number)})
            assert f"! web: held since {bad[:8]}: failed its health check" in shown
            assert "  = 1 unchanged" in shown
            assert text_of(rig, "web") == "one"
        # A comment and a move do not make it another version.
        await push(
            rig,
            work,
            {"web.hcl": None, "services/web.hcl": "# moved\n" + service("web", "two")},
        )
        assert text_of(rig, "web") == "one"
        assert held(rig)["web"].commit_id == bad
        preview = await rig.gitops.preview_files(
            "demo", {"web.hcl": service("web", "two").encode(), "b.hcl": service("b").encode()}
        )
        assert [each.version.job_id for each in preview.held] == ["web"]
        await push(rig, work, {"services/web.hcl": service("web", "three")})
        assert text_of(rig, "web") == "three"
        assert held(rig) == {}
        assert rig.rollouts()[0].jobs[0].cause == "commit"

    with_rig(tmp_path, body)


def test_version_that_failed_a_moment_ago_is_held_before_its_rollout_says_so(
    tmp_path: Path,
) -> None:
    """The tracker has not judged the rollout: the next commit's plan does."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web")})
        await rig.gitops.stop()
        work.commit({"web.hcl": service("web", "two")})
        assert (await work.push(rig.url("demo"), "detach")).returncode == 0
        job = rig.job("web")
        assert job is not None
        failed = make_deployment(
            job, status="failed", status_description="rolling back to job version 0"
        )
        await plan(rig, "web", deployment=failed)
        await by_hand(rig, "web", 0)
        assert held(rig) == {}
        work.commit({"README": "unrelated"})
        assert (await work.push(rig.url("demo"), "detach")).returncode == 0
        assert text_of(rig, "web") == "one"

    with_rig(tmp_path, body)


def test_reverted_rollout_does_not_come_back_with_the_remotes_next_commit(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await follow(rig, work, {"web.hcl": service("web"), "gone.hcl": service("gone")})
        bad = await follow(
            rig,
            work,
            {"web.hcl": service("web", "two"), "new.hcl": service("new"), "gone.hcl": None},
        )
        await rig.gitops.revert(rig.rollouts()[0].id, ADA)
        await judged(rig)
        assert [text_of(rig, name) for name in ("web", "new", "gone")] == ["one", "", "one"]
        for number in range(2):
            commit = await follow(rig, work, {"README": str(number)})
            assert [text_of(rig, name) for name in ("web", "new", "gone")] == ["one", "", "one"]
            assert rig.source().status.applied_commit == commit
        assert {name: each.is_deletion for name, each in held(rig).items()} == {
            "web": False,
            "new": False,
            "gone": True,
        }
        assert {each.commit_id for each in held(rig).values()} == {bad}
        assert "was taken back by Ada Byron (breaks the login)" in held(rig)["web"].reason
        # The same content in another commit's name, too.
        work.git("commit", "--amend", "--quiet", "--message", "Rewritten")
        await follow(rig, work, {"web.hcl": service("web", "three")})
        assert [text_of(rig, name) for name in ("web", "new", "gone")] == ["three", "", "one"]
        made = await rig.gitops.retry("demo", RetryRequest([("default", "gone")], by="ada"))
        assert [(each.job_id, each.action) for each in made.jobs] == [("gone", "delete")]
        made = await rig.gitops.retry("demo", RetryRequest(every=True))
        assert [text_of(rig, name) for name in ("web", "new", "gone")] == ["three", "one", ""]
        assert held(rig) == {}
        with pytest.raises(NotFoundError, match="holds no version"):
            await rig.gitops.retry("demo", RetryRequest(every=True))

    with_rig(tmp_path, body, **REMOTE, allow_rewind=True)


def test_reverted_content_pushed_again_under_another_commit_is_held(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web")})
        await push(rig, work, {"web.hcl": service("web", "two")})
        await rig.gitops.revert(rig.rollouts()[0].id, ADA)
        await judged(rig)
        assert held(rig) == {}, "git and the cluster agree: nothing is kept from the cluster"
        assert (await work.run("pull", "-q", "--ff-only", rig.url("demo"), "main")).returncode == 0
        await push(rig, work, {"README": "unrelated"})
        shown = await push(rig, work, {"web.hcl": service("web", "two")})
        assert "! web: held since" in shown
        assert text_of(rig, "web") == "one"
        await rig.gitops.retry("demo", RetryRequest([("default", "web")]))
        assert text_of(rig, "web") == "two"

    with_rig(tmp_path, body)


def test_rollback_over_several_commits_brings_git_and_cluster_to_the_earlier_commit(
    tmp_path: Path,
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        files = {"web.hcl": service("web"), "gone.hcl": service("gone")}
        await push(rig, work, dict(files), message="First")
        first = work.head()
        await push(rig, work, {"web.hcl": service("web", "two"), "new.hcl": service("new")})
        await push(rig, work, {"gone.hcl": None}, message="Orchgit-Delete: gone")
        last = work.head()
        reverter = rig.gitops.reverter()
        shown = await reverter.preview_rollback("demo", first[:8], ADA)
        assert {(each.job_id, each.action) for each in shown.jobs} == {
            ("web", "update"),
            ("new", "delete"),
            ("gone", "create"),
        }
        assert shown.taken_back[0].id == last
        assert len(shown.taken_back) == 2
        assert rig.source().status.applied_commit == last, "a preview changes nothing"
        request = RollbackRequest(ADA.by, ADA.email, ADA.reason, expected_plan=shown.plan_hash)
        made = await reverter.rollback("demo", first[:8], request)
        assert (made.trigger, made.pusher, made.reason) == ("revert", ADA.by, ADA.reason)
        await judged(rig)
        assert [text_of(rig, name) for name in ("web", "new", "gone")] == ["one", "", "one"]
        pulled = await work.run("pull", "--quiet", "--ff-only", rig.url("demo"), "main")
        assert pulled.returncode == 0, pulled.output
        assert work.git("log", "-1", "--format=%an <%ae>") == "Ada Byron <ada@example.com>"
        assert "breaks the login" in work.git("log", "-1", "--format=%B")
        assert work.git("rev-parse", "HEAD^{tree}") == work.git("rev-parse", f"{first}^{{tree}}")
        assert [each.status for each in rig.rollouts()] == [
            "healthy",
            "reverted",
            "reverted",
            "healthy",
        ]
        # Forward again: the person asks for what was taken back.
        await reverter.rollback("demo", last)
        await judged(rig)
        assert [text_of(rig, name) for name in ("web", "new", "gone")] == ["two", "one", ""]

    with_rig(tmp_path, body)


def test_rollback_of_a_remote_says_how_to_change_its_branch(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = await follow(rig, work, {"web.hcl": service("web")})
        await follow(rig, work, {"web.hcl": service("web", "two"), "new.hcl": service("new")})
        last = await follow(rig, work, {"web.hcl": service("web", "three")})
        shown = await rig.gitops.reverter().preview_rollback("demo", first, ADA)
        assert shown.commands == [
            f"git revert --no-edit {first[:12]}..{last[:12]}",
            "git push",
        ]
        await rig.gitops.reverter().rollback("demo", first, ADA)
        assert [text_of(rig, name) for name in ("web", "new")] == ["one", ""]
        await rig.gitops.sync("demo")
        assert rig.source().status.applied_commit == first
        (tmp_path / "back.patch").write_text(shown.patch)
        work.git("am", "--quiet", str(tmp_path / "back.patch"))
        assert work.git("rev-parse", "HEAD^{tree}") == work.git("rev-parse", f"{first}^{{tree}}")
        assert work.git("log", "-1", "--format=%an") == "Ada Byron"
        await rig.gitops.sync("demo")
        assert rig.source().status.applied_commit == work.head()
        assert held(rig) == {}
        assert [text_of(rig, name) for name in ("web", "new")] == ["one", ""]

    with_rig(tmp_path, body, **REMOTE)


def test_rollback_deletes_a_job_with_volume_claims_only_by_name(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web")})
        first = work.head()
        await push(rig, work, {"db.hcl": service("db")})
        claim = VolumeClaimRequest(
            claim_id="c1", namespace="default", job_id="db", task_group_name="main", volume_id="v"
        )
        await plan(rig, "db", claims=[claim])
        shown = await rig.gitops.reverter().preview_rollback("demo", first, ADA)
        assert "`-delete db` deletes it" in shown.problems[0]
        with pytest.raises(JobFileError, match="owns sticky volume claims"):
            await rig.gitops.reverter().rollback("demo", first, ADA)
        assert text_of(rig, "db") == "one"
        named = RollbackRequest(delete=frozenset({"db"}))
        await rig.gitops.reverter().rollback("demo", first, named)
        assert text_of(rig, "db") == ""

    with_rig(tmp_path, body)


def test_rollback_that_is_too_late_changes_nothing(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await push(rig, work, {"web.hcl": service("web")})
        first = work.head()
        await push(rig, work, {"web.hcl": service("web", "two")})
        shown = await rig.gitops.reverter().preview_rollback("demo", first, ADA)
        await push(rig, work, {"web.hcl": service("web", "three")})
        last = work.head()
        seen = RollbackRequest(expected_plan=shown.plan_hash)
        with pytest.raises(ConflictError, match="has changed since you saw it"):
            await rig.gitops.reverter().rollback("demo", first, seen)
        assert rig.source().status.applied_commit == last
        assert text_of(rig, "web") == "three"
        with pytest.raises(ConflictError, match="it is the applied commit"):
            await rig.gitops.reverter().rollback("demo", last)
        with pytest.raises(NotFoundError, match="has no such commit"):
            await rig.gitops.reverter().rollback("demo", "0123abcd")
        with pytest.raises(ConflictError, match="orchgit source rollback demo COMMIT"):
            await rig.gitops.revert(rig.rollouts()[1].id)

    with_rig(tmp_path, body)


def test_jobs_are_applied_again_though_another_source_has_another_job_of_the_commit(
    tmp_path: Path,
) -> None:
    """The source's commit still has files of jobs that were released to another source."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        once = batch_job("once")
        files = {"web.hcl": service("web"), "api.hcl": service("api"), "once.hcl": once}
        await push(rig, work, {**files, "free.hcl": service("free")})
        await push(rig, work, {"web.hcl": service("web", "two")}, failing=["web"])
        await by_hand(rig, "web", 0)
        await release_job(rig.context, "default", "api")
        await rig.add_source("other")
        others = WorkTree(work.path.with_name("others"))
        others.commit({"api.hcl": service("api", "theirs")})
        assert (await others.push(rig.url("other"), "detach")).returncode == 0

        await rig.gitops.retry("demo", RetryRequest((("default", "web"),)))
        assert text_of(rig, "web") == "two"
        await deregister_job(rig.context, "default", "once", DeregisterOptions(purge=True))
        await rig.gitops.rerun("demo", [("default", "once")])
        assert rig.job("once") is not None
        before = rig.job("free")
        assert before is not None
        await deregister_job(rig.context, "default", "free", DeregisterOptions(purge=True))
        await register_job(rig.context, bare_spec(before))
        await rig.gitops.adopt("demo")
        assert [owner_of(rig.job(each)) for each in ("free", "api")] == ["demo", "other"]
        assert text_of(rig, "api") == "theirs"

    with_rig(tmp_path, body)


def test_held_version_survives_a_restart_and_the_source_that_held_it(tmp_path: Path) -> None:
    work = WorkTree(tmp_path / "work")

    async def first() -> None:
        async with gitops_rig(tmp_path / "data", evaluate=False) as rig:
            await rig.add_source()
            await push(rig, work, {"web.hcl": service("web")})
            await push(rig, work, {"web.hcl": service("web", "two")}, failing=["web"])
            await by_hand(rig, "web", 0)

    async def second() -> None:
        async with gitops_rig(tmp_path / "data", evaluate=False) as rig:
            await push(rig, work, {"README": "unrelated"})
            assert text_of(rig, "web") == "one"
            await remove_source(rig.context, "demo")
            await rig.add_source("next", adopt=True)
            answer = await work.push(rig.url("next"), "detach")
            assert "! web: held since" in answer.output
            job = rig.job("web")
            assert job is not None
            assert job.origin is not None
            assert (job.origin.source, text_of(rig, "web")) == ("next", "one")
            with rig.context.snapshot() as snapshot:
                assert [each.job_id for each in snapshot.held_versions.of_source("next")] == ["web"]

    asyncio.run(first())
    asyncio.run(second())


def test_new_leader_holds_what_failed_before_its_time(tmp_path: Path) -> None:
    """The former leader was lost between the failure and the entry that holds the version."""

    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        async with gitops_cluster(tmp_path / "servers") as cluster:
            leader = await cluster.leader()
            rig = leader.rig
            for member in cluster.members:
                record = ServerRecord(address=member.raft, command_version=COMMAND_VERSION)
                await rig.state.propose(PutServer(now_ns=1, server=record))
            await rig.add_source()
            work.commit({"web.hcl": service("web")})
            assert (await work.push(rig.url("demo"), "detach")).returncode == 0
            await rig.until(lambda: rig.rollouts()[0].is_terminal)
            await rig.gitops.stop()
            bad = work.commit({"web.hcl": service("web", "two")})
            assert (await work.push(rig.url("demo"), "detach")).returncode == 0
            job = rig.job("web")
            assert job is not None
            failed = make_deployment(job, status="failed", status_description="rolling back")
            await plan(rig, "web", deployment=failed)
            await by_hand(rig, "web", 0)
            assert held(rig) == {}
            await leader.stop()
            successor = (await cluster.leader()).rig
            await successor.until(lambda: "web" in held(successor))
            assert held(successor)["web"].commit_id == bad
            assert successor.rollouts()[0].status == "failed"
            work.commit({"README": "unrelated"})
            answer = await work.push(successor.url("demo"), "detach")
            assert f"! web: held since {bad[:8]}" in answer.output
            assert text_of(successor, "web") == "one"

    asyncio.run(run())
