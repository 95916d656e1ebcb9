"""A commit that does not become healthy goes back whole, in one entry, and once only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from orchgit.model.base import NS_PER_S
from orchgit.model.evaluation import EvalStatus
from orchgit.model.gates import GatePolicy
from orchgit.replication.commands.evaluations import UpsertEvaluations
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig
from tests.support.jumping_clock import JumpingClock

Body = Callable[[GitopsRig, WorkTree, JumpingClock], Awaitable[None]]
REVERT = GatePolicy(health="revert")


def with_health_gate(directory: Path, body: Body, gates: GatePolicy = REVERT) -> None:
    """A built-in source with a health gate; the test stands for the schedulers."""

    async def run() -> None:
        clock = JumpingClock(1_800_000_000 * NS_PER_S)
        async with gitops_rig(directory / "data", evaluate=False, clock=clock) as rig:
            await rig.add_source(gates=gates)
            await body(rig, WorkTree(directory / "work"), clock)

    asyncio.run(run())


async def evaluate(rig: GitopsRig, failing: tuple[str, ...] = (), only: str = "") -> None:
    """Ends the pending evaluations, of one job or of all."""
    with rig.context.snapshot() as snapshot:
        pending = snapshot.evaluations.of_status(EvalStatus.PENDING)
    done = [
        replace(each, status=EvalStatus.FAILED if each.job_id in failing else EvalStatus.COMPLETE)
        for each in pending
        if only in ("", each.job_id)
    ]
    await rig.state.propose(UpsertEvaluations(now_ns=1, evaluations=done))


async def first_commit(rig: GitopsRig, work: WorkTree) -> str:
    commit = work.commit({"a.hcl": batch_job("a"), "b.hcl": batch_job("b")})
    await work.push(rig.url("demo"), "detach")
    await evaluate(rig)
    await rig.until(lambda: rig.rollout_of(commit).status == "healthy")
    return commit


def test_commit_goes_back_whole_when_one_of_its_jobs_fails(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        first = await first_commit(rig, work)
        files = {"a.hcl": batch_job("a", text="new"), "b.hcl": batch_job("b", text="new")}
        bad = work.commit(files | {"c.hcl": batch_job("c")})
        await work.push(rig.url("demo"), "detach")
        await evaluate(rig, failing=("b",), only="b")  # a has not even been looked at
        await rig.until(lambda: "went back" in rig.rollout_of(bad).status_description)
        reverted = rig.rollout_of(bad)
        assert reverted.status == "reverted"
        revert = next(each for each in rig.rollouts() if each.reverts == reverted.id)
        assert (revert.trigger, revert.pusher) == ("revert", "health gate")
        assert sorted(job.job_id for job in revert.jobs) == ["a", "b", "c"]
        assert {job.job_id: job.action for job in revert.jobs}["c"] == "delete"
        assert f"went back to commit {first[:8]} by rollout {revert.id[:8]}, as job b failed" in (
            reverted.status_description
        )
        await asyncio.to_thread(work.git, "fetch", "-q", rig.url("demo"), "main")
        assert work.git("log", "-1", "--format=%s", "FETCH_HEAD").startswith("Revert")

        await evaluate(rig, failing=("a",))
        await rig.until(lambda: next(r for r in rig.rollouts() if r.reverts).status == "failed")
        await rig.gitops.stop()
        await rig.gitops.start()
        await rig.gitops.sync("demo")
        assert len(rig.rollouts()) == 3

    with_health_gate(tmp_path, body)


def test_commit_that_is_late_goes_back(tmp_path: Path) -> None:
    gates = GatePolicy(health="revert", health_deadline_ns=300 * NS_PER_S)

    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        await first_commit(rig, work)
        bad = work.commit({"a.hcl": batch_job("a", text="new")})
        await work.push(rig.url("demo"), "detach")
        # The deadline counts from here: a jump before the commit is applied would be left out.
        await rig.until(lambda: rig.rollout_of(bad).status == "progressing")
        clock.jump(299)
        await rig.until(lambda: rig.rollout_of(bad).status == "progressing")
        clock.jump(2)
        await rig.until(lambda: "went back" in rig.rollout_of(bad).status_description)
        assert rig.rollout_of(bad).status == "reverted"
        assert "not healthy within 5m0s: scheduling..." in rig.rollout_of(bad).status_description

    with_health_gate(tmp_path, body, gates)


def test_first_commit_cannot_go_back_and_says_so(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        bad = work.commit({"a.hcl": batch_job("a")})
        await work.push(rig.url("demo"), "detach")
        await evaluate(rig, failing=("a",))
        await rig.until(lambda: "cannot go back" in rig.rollout_of(bad).status_description)
        assert rig.rollout_of(bad).status == "failed"
        assert "it is the first commit of source demo" in rig.rollout_of(bad).status_description
        assert len(rig.rollouts()) == 1

    with_health_gate(tmp_path, body)


def test_without_the_gate_a_failed_commit_stays(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        await first_commit(rig, work)
        bad = work.commit({"a.hcl": batch_job("a", text="new")})
        await work.push(rig.url("demo"), "detach")
        await evaluate(rig, failing=("a",))
        await rig.until(lambda: rig.rollout_of(bad).status == "failed")
        assert rig.source().status.applied_commit == bad
        policy = 'gate {\n  health = "revert"\n}\n'
        asked = work.commit({"a.hcl": batch_job("a", text="newer"), "orchgit.hcl": policy})
        await work.push(rig.url("demo"), "detach")
        await evaluate(rig, failing=("a",))
        await rig.until(lambda: rig.rollout_of(asked).status == "reverted")

    with_health_gate(tmp_path, body, GatePolicy())


def test_new_leader_takes_back_what_failed_before_it_led(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, clock: JumpingClock) -> None:
        await first_commit(rig, work)
        bad = work.commit({"a.hcl": batch_job("a", text="new")})
        await work.push(rig.url("demo"), "detach")
        await rig.gitops.stop()
        await evaluate(rig, failing=("a",))
        await rig.gitops.start()
        await rig.until(lambda: rig.rollout_of(bad).status == "reverted")

    with_health_gate(tmp_path, body)
