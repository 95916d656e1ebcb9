"""Reports of sources, read from a real state: indexes for blocking queries, and what is cached."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from orchgit.gitops.sources.status_reader import SourceReport
from orchgit.model.gates import GatePolicy
from orchgit.model.source_health import SourceCheck
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, with_demo


def report(rig: GitopsRig, name: str = "demo") -> SourceReport:
    with rig.context.snapshot() as snapshot:
        return rig.gitops.statuses.report(snapshot, rig.source(name))


def test_report_moves_with_the_jobs_of_its_source_and_with_no_others(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("other")
        work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"))
        before, others = report(rig), report(rig, "other")
        assert (before.health.jobs.total, others.health.jobs.total) == (1, 0)
        job = rig.job("a")
        assert job is not None
        by_hand = replace(job, priority=77)
        changed = await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(by_hand)))
        assert report(rig).modify_index >= changed.index > before.modify_index
        assert report(rig, "other").modify_index == others.modify_index

    with_demo(tmp_path, body)


def test_report_shows_a_changed_count_though_the_rest_is_cached(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"a.hcl": batch_job("a").replace('"batch"', '"service"')})
        await work.push(rig.url("demo"))
        assert report(rig).health.jobs.healthy == 1
        job = rig.job("a")
        assert job is not None
        group = replace(job.task_groups[0], count=2)
        more = replace(job, task_groups=[group], update=None)
        await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(more)))
        found = report(rig).health
        assert (found.jobs.healthy, found.jobs.degraded) == (0, 1)
        assert found.reasons[0].text == "0/2 running"

    with_demo(tmp_path, body)


def test_report_of_a_refused_commit_says_what_the_cluster_stays_at(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        good = work.commit({"a.hcl": batch_job("a")})
        await rig.add_source("far", kind="local", url=str(work.path))
        result = await rig.gitops.sync("far")
        assert (result.result, result.commit_id) in (("applied", good), ("unchanged", good))
        bad = work.commit({"a.hcl": "job {"})
        assert (await rig.gitops.sync("far")).result == "refused"
        assert (await rig.gitops.sync("far")).result == "refused"
        assert [each.commit.id for each in rig.rollouts("far")].count(bad) == 1
        # A report changes once more when the rollout of the good commit is judged.
        await rig.until(lambda: all(each.is_terminal for each in rig.rollouts("far")))
        health = report(rig, "far").health
        assert (health.status, health.applied_commit, health.remote_commit) == ("held", good, bad)
        assert health.difference.startswith(
            f"stays at commit {good[:8]}: refused commit {bad[:12]}"
        )
        assert report(rig, "far").check.failures == 0
        # An outage hides the problems only as long as it lasts.
        work.path.rename(tmp_path / "gone")
        assert (await rig.gitops.sync("far")).result == "error"
        assert report(rig, "far").health.status == "unreachable"
        (tmp_path / "gone").rename(work.path)
        assert (await rig.gitops.sync("far")).result == "refused"
        assert report(rig, "far").health == health
        fixed = work.commit({"a.hcl": batch_job("a", text="new")})
        done = await rig.gitops.sync("far")
        assert (done.result, done.commit_id) == ("applied", fixed)
        assert report(rig, "far").health.difference == ""

    with_demo(tmp_path, body)


def test_follower_reports_what_is_recorded_and_marks_the_rest_as_not_known(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("far", kind="local", url=str(tmp_path / "missing"))
        await rig.gitops.sync("far")
        led = report(rig, "far")
        assert (led.check.known, led.check.failures > 0) == (True, True)
        await rig.gitops.stop()
        followed = report(rig, "far")
        assert followed.check == SourceCheck(
            last_check_ns=rig.source("far").status.last_checked_ns,
            error=led.check.error,
            error_since_ns=led.check.error_since_ns,
        )
        assert followed.health.status == led.health.status == "unreachable"

    with_demo(tmp_path, body)


def test_source_whose_commit_waits_for_an_approval_is_pending_and_says_so(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"))
        await rig.until(lambda: report(rig).health.status == "healthy")
        await rig.add_source(gates=GatePolicy(approvals=1))
        second = work.commit({"a.hcl": batch_job("a", text="new")})
        answer = await work.push(rig.url("demo"), "detach")
        assert answer.returncode == 0, answer.output
        health = report(rig).health
        assert (health.status, health.applied_commit, health.remote_commit) == (
            "pending",
            first,
            second,
        )
        [reason] = health.reasons
        assert reason.text.startswith(f"commit {second[:8]} waits: ")
        assert health.difference == reason.text
        result = await rig.gitops.sync("demo")
        assert (result.result, result.commit_id) == ("waiting", second)

    with_demo(tmp_path, body)
