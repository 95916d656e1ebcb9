"""Commits that wait at their gates: windows, approvals, and what ends the waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.errors import ConflictError, RefusedError
from orchgit.gitops.commits.forecast import Forecast
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.model.base import NS_PER_S, ns_of_datetime
from orchgit.model.fit import GroupFit, JobFit, RuledOut, fit_report
from orchgit.model.gates import GatePolicy
from orchgit.model.job import Job
from orchgit.model.server import ServerRecord
from orchgit.model.window_text import parse_window
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.servers import PutServer
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.services.gitops.sources import remove_source
from tests.support.factories import make_node
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import gitops_cluster
from tests.support.gitops_rig import GitopsRig, gitops_rig
from tests.support.jumping_clock import JumpingClock

Body = Callable[[GitopsRig, WorkTree, JumpingClock], Awaitable[None]]

NIGHT = ns_of_datetime(datetime(2026, 3, 2, 3, 0, tzinfo=UTC))
OFFICE = GatePolicy(windows=[parse_window("allow 0 9 * * 1-5 8h")])
TWO_EYES = GatePolicy(approvals=1)


def with_gates(directory: Path, gates: GatePolicy, body: Body) -> None:
    """A built-in source `demo` with gates, on a Monday night."""

    async def run() -> None:
        clock = JumpingClock(NIGHT)
        async with gitops_rig(directory / "data", clock=clock) as rig:
            await rig.add_source(gates=gates)
            await body(rig, WorkTree(directory / "work"), clock)

    asyncio.run(run())


async def set_by_hand(rig: GitopsRig, job: Job | None, priority: int) -> None:
    assert job is not None
    upsert = JobUpsert(replace(job, priority=priority))
    await rig.state.propose(RegisterJob(now_ns=1, upsert=upsert))


def test_commit_outside_its_window_waits_and_is_applied_when_the_window_opens(
    tmp_path: Path,
) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a")})
        answer = await work.push(rig.url("demo"))
        assert answer.returncode == 0, answer.output
        why = "outside its window, which opens at 2026-03-02 09:00:00 UTC"
        assert f"Waiting: {why}" in answer.output
        waiting = rig.rollout_of(commit)
        assert (waiting.status, waiting.status_description) == ("pending", why)
        assert not waiting.was_applied
        assert [(job.job_id, job.status) for job in waiting.jobs] == [("a", "planned")]
        assert rig.job("a") is None
        assert rig.source().status.applied_commit == ""

        clock.jump(6 * 3600)
        await rig.until(lambda: rig.rollout_of(commit).status == "healthy")
        done = rig.rollout_of(commit)
        assert (done.id, done.trigger) == (waiting.id, "push")
        assert rig.job("a") is not None
        assert rig.source().status.applied_commit == commit

    with_gates(tmp_path, OFFICE, body)


def test_newest_of_several_waiting_commits_is_applied(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        first = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"))
        second = work.commit({"b.hcl": batch_job("b")})
        await work.push(rig.url("demo"))
        ended = rig.rollout_of(first)
        assert (ended.status, ended.status_description) == (
            "superseded",
            f"superseded by commit {second[:8]}",
        )
        clock.jump(6 * 3600)
        await rig.until(lambda: rig.rollout_of(second).status == "healthy")
        assert rig.rollout_of(first).status == "superseded"
        assert rig.job("a") is not None
        assert len(rig.rollouts()) == 2

    with_gates(tmp_path, OFFICE, body)


def test_override_applies_a_commit_outside_its_window_and_is_recorded(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a")})
        answer = await work.push(rig.url("demo"), "override-window=the shop is down")
        assert "overridden by 127.0.0.1: the shop is down" in answer.output
        done = rig.rollout_of(commit)
        assert done.was_applied
        assert done.gates is not None
        assert done.gates.override is not None
        assert (done.gates.override.by, done.gates.override.reason) == (
            "127.0.0.1",
            "the shop is down",
        )
        later = work.commit({"a.hcl": batch_job("a", text="new")})
        await work.push(rig.url("demo"), "detach")
        assert rig.rollout_of(later).status == "pending"
        await rig.gitops.override_window("demo", "still down", "bob")
        found = rig.rollout_of(later)
        assert found.was_applied
        assert found.gates is not None
        assert found.gates.override is not None
        assert found.gates.override.by == "bob"

    with_gates(tmp_path, OFFICE, body)


def test_commit_waits_for_the_approval_of_its_plan(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a")})
        push = asyncio.create_task(work.push(rig.url("demo")))
        await rig.until(lambda: bool(rig.rollouts()))
        waiting = rig.rollout_of(commit)
        assert waiting.status == "awaiting_approval"
        assert waiting.status_description == "0 of 1 approvals"
        with pytest.raises(ConflictError, match="its plan is"):
            await rig.gitops.approve(waiting.id, "f" * 64, "bob")
        for own in ("Ada", "ada@example.com", "ada"):
            with pytest.raises(RefusedError, match="another person has to approve it"):
                await rig.gitops.approve(waiting.id, waiting.plan_hash, own)
        assert rig.job("a") is None
        await rig.gitops.approve(waiting.id, waiting.plan_hash[:12], "bob")
        answer = await push
        assert answer.returncode == 0
        assert f"orchgit rollout approve {waiting.id[:8]}" in answer.output
        assert "Healthy after" in answer.output
        done = rig.rollout_of(commit)
        assert done.id == waiting.id
        assert done.gates is not None
        assert [(each.by, each.plan_hash) for each in done.gates.approvals] == [
            ("bob", done.plan_hash)
        ]
        with pytest.raises(ConflictError, match="does not wait"):
            await rig.gitops.approve(waiting.id, waiting.plan_hash, "eve")

    with_gates(tmp_path, TWO_EYES, body)


def test_approval_lapses_when_the_plan_changes(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"), "detach")
        first = rig.rollouts()[0]
        await rig.gitops.approve(first.id, first.plan_hash, "bob")
        await rig.gitops.approve(first.id, first.plan_hash, "eve")
        await rig.until(lambda: rig.rollouts()[0].was_applied)

        commit = work.commit({"a.hcl": batch_job("a", text="new")})
        await work.push(rig.url("demo"), "detach")
        waiting = rig.rollout_of(commit)
        await rig.gitops.approve(waiting.id, waiting.plan_hash, "bob")
        await set_by_hand(rig, rig.job("a"), 77)
        await rig.gitops.approve(waiting.id, waiting.plan_hash, "eve")
        why = "0 of 2 approvals; the plan changed after bob, eve approved it"
        await rig.until(lambda: rig.rollout_of(commit).status_description == why)
        again = rig.rollout_of(commit)
        assert again.status == "awaiting_approval"
        assert again.plan_hash != waiting.plan_hash
        await rig.gitops.approve(waiting.id, again.plan_hash, "bob")
        await rig.gitops.approve(waiting.id, again.plan_hash, "eve")
        await rig.until(lambda: rig.rollout_of(commit).was_applied)

    with_gates(tmp_path, GatePolicy(approvals=2), body)


def test_rejected_commit_is_not_applied_and_a_commit_on_top_asks_again(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a")})
        push = asyncio.create_task(work.push(rig.url("demo")))
        await rig.until(lambda: bool(rig.rollouts()))
        waiting = rig.rollout_of(commit)
        await rig.gitops.reject(waiting.id, "too big", "bob")
        assert "Rejected: rejected by bob: too big" in (await push).output
        assert rig.rollout_of(commit).status == "rejected"
        await rig.gitops.sync("demo")
        assert rig.job("a") is None
        assert len(rig.rollouts()) == 1
        later = work.commit({"b.hcl": batch_job("b")})
        await work.push(rig.url("demo"), "detach")
        assert rig.rollout_of(later).status == "awaiting_approval"
        assert [job.job_id for job in rig.rollout_of(later).jobs] == ["a", "b"]

    with_gates(tmp_path, TWO_EYES, body)


def test_removing_the_source_ends_what_waits(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"), "detach")
        await remove_source(rig.context, "demo")
        ended = rig.rollout_of(commit)
        assert (ended.status, ended.status_description) == ("superseded", "its source was removed")

    with_gates(tmp_path, TWO_EYES, body)


def test_commit_that_changes_no_job_waits_for_nothing(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"README.md": "nothing to run"})
        answer = await work.push(rig.url("demo"))
        assert answer.returncode == 0, answer.output
        assert rig.rollout_of(commit).status == "healthy"

    with_gates(tmp_path, GatePolicy(approvals=2, windows=OFFICE.windows), body)


def test_policy_of_the_repository_narrows_the_gates(tmp_path: Path) -> None:
    policy = (
        'gate { approvals = 1 }\nwindow "nights" {\n  allow = "0 2 * * *"\n  duration = "2h"\n}\n'
    )

    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a"), "orchgit.hcl": policy})
        await work.push(rig.url("demo"), "detach")
        waiting = rig.rollout_of(commit)
        assert waiting.status_description == (
            "0 of 1 approvals; outside its window, which does not open within 400 days"
        )

    with_gates(tmp_path, OFFICE, body)


def test_new_leader_goes_on_with_what_waits(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        commit = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"), "detach")
        waiting = rig.rollout_of(commit)
        await rig.gitops.stop()
        await rig.gitops.approve(waiting.id, waiting.plan_hash, "bob")
        assert not rig.rollout_of(commit).was_applied
        await rig.gitops.start()
        await rig.until(lambda: rig.rollout_of(commit).status == "healthy")

    with_gates(tmp_path, TWO_EYES, body)


def test_commit_that_waits_is_applied_while_the_host_of_its_repository_is_away(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = JumpingClock(NIGHT)
        async with gitops_rig(tmp_path / "data", clock=clock) as rig:
            work = WorkTree(tmp_path / "work")
            commit = work.commit({"a.hcl": batch_job("a")})
            await rig.add_source(kind="remote", url=f"file://{work.path}", gates=OFFICE)
            await rig.until(lambda: bool(rig.rollouts()))
            assert rig.rollout_of(commit).status == "pending"
            work.path.rename(tmp_path / "away")
            clock.jump(6 * 3600)
            await rig.until(lambda: rig.rollout_of(commit).status == "healthy")
            assert rig.rollout_of(commit).trigger == "poll"
            result = await rig.gitops.sync("demo")
            assert (result.result, "cannot read" in result.text) == ("error", True)

    asyncio.run(run())


def test_commit_that_waits_is_applied_by_another_leader(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_cluster(tmp_path / "cluster") as cluster:
            leader = await cluster.leader()
            for member in cluster.members:
                record = ServerRecord(member.raft, command_version=COMMAND_VERSION)
                await leader.rig.state.propose(PutServer(now_ns=1, server=record))
            await leader.rig.add_source(gates=TWO_EYES)
            work = WorkTree(tmp_path / "work")
            commit = work.commit({"a.hcl": batch_job("a")})
            answer = await work.push(leader.rig.url("demo"), "detach")
            assert answer.returncode == 0, answer.output
            waiting = leader.rig.rollout_of(commit)
            await leader.stop()
            successor = await cluster.leader()
            await successor.rig.gitops.approve(waiting.id, waiting.plan_hash, "bob")
            await successor.until(lambda: successor.rig.rollout_of(commit).status == "healthy")
            assert successor.rig.rollout_of(commit).id == waiting.id

    asyncio.run(run())


def test_commit_that_loosens_its_repositorys_gates_is_under_them(tmp_path: Path) -> None:
    policy = "gate {\n  approvals = 1\n}\nprune {\n  max_share_percent = 10\n}\n"

    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        jobs = {f"{name}.hcl": batch_job(name) for name in "abc"}
        work.commit(jobs | {"orchgit.hcl": policy})
        await work.push(rig.url("demo"), "detach")
        first = rig.rollouts()[0]
        await rig.gitops.approve(first.id, first.plan_hash, "bob")
        await rig.until(lambda: rig.rollouts()[0].was_applied)
        loose = {"orchgit.hcl": "", "a.hcl": batch_job("a", text="new")}
        commit = work.commit(loose)
        await work.push(rig.url("demo"), "detach")
        waiting = rig.rollout_of(commit)
        assert waiting.status == "awaiting_approval"
        work.commit({"b.hcl": None, "c.hcl": None})
        answer = await work.push(rig.url("demo"))
        assert "the limit is 10 %" in answer.output
        work.git("reset", "-q", "--hard", commit)
        await rig.gitops.approve(waiting.id, waiting.plan_hash, "bob")
        await rig.until(lambda: rig.rollout_of(commit).was_applied)
        free = work.commit({"a.hcl": batch_job("a", text="newer")})
        await work.push(rig.url("demo"), "detach")
        assert rig.rollout_of(free).was_applied

    with_gates(tmp_path, GatePolicy(), body)


class OneNode:
    """A forecaster that finds room once there is any."""

    def __init__(self) -> None:
        self.has_room = False

    async def forecast(self, plan: CommitPlan, budget_s: float | None = None) -> Forecast:
        blocked = GroupFit("main", blocked=1, ruled_out=[RuledOut("memory exhausted", 1)])
        return (
            Forecast() if self.has_room else Forecast(fit_report(1, [JobFit("", "a", [blocked])]))
        )


def test_commit_that_does_not_fit_waits_until_the_capacity_changes(tmp_path: Path) -> None:
    async def run() -> None:
        forecaster = OneNode()
        async with gitops_rig(tmp_path / "data", forecaster=forecaster) as rig:
            work = WorkTree(tmp_path / "work")
            commit = work.commit({"a.hcl": batch_job("a")})
            gates = GatePolicy(require_fit=True)
            url = f"file://{work.path}"
            hour_ns = 3600 * NS_PER_S
            await rig.add_source(kind="remote", url=url, gates=gates, poll_interval_ns=hour_ns)
            await rig.until(lambda: bool(rig.rollouts()))
            assert (rig.rollout_of(commit).status, rig.rollout_of(commit).status_description) == (
                "pending",
                "does not fit: a: group main: 1 of 1 blocked: memory exhausted on 1 node",
            )
            forecaster.has_room = True
            await rig.state.propose(RegisterNode(now_ns=1, node=make_node()))
            await rig.until(lambda: rig.rollout_of(commit).was_applied)

    asyncio.run(run())
