"""A server that starts again parses what changed, not what it parsed before."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from orchgit.model.operator import SchedulerConfig
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.settings import SetSchedulerConfig
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import gitops_rig

MANY = 200


def test_first_commit_after_a_restart_parses_only_the_changed_file(tmp_path: Path) -> None:
    work = WorkTree(tmp_path / "work")

    async def first() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work.commit({f"jobs/{n}.hcl": batch_job(f"j{n}") for n in range(MANY)})
            answer = await work.push(rig.url("demo"), "detach")
            assert answer.returncode == 0, answer.output
            assert len(rig.parser.parsed) == MANY

    async def second() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            work.commit({"jobs/7.hcl": batch_job("j7", text="changed")})
            answer = await work.push(rig.url("demo"), "detach")
            assert answer.returncode == 0, answer.output
            assert rig.parser.parsed == ["jobs/7.hcl"]
            job = rig.job("j7")
            assert job is not None
            assert job.version == 1

    asyncio.run(first())
    asyncio.run(second())


def test_only_changed_jobs_are_admitted_again_after_a_restart(tmp_path: Path) -> None:
    """A job changed by hand is noticed; those that stand as wanted need no second admission."""
    work = WorkTree(tmp_path / "work")

    async def first() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            files = {f"jobs/{n}.hcl": batch_job(f"j{n}") for n in range(MANY)}
            work.commit(files)
            assert (await work.push(rig.url("demo"), "detach")).returncode == 0
            by_hand = rig.job("j3")
            assert by_hand is not None
            changed = replace(by_hand, priority=77)
            await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(changed)))

    async def second() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            closed = SchedulerConfig(reject_job_registration=True)
            await rig.state.propose(SetSchedulerConfig(now_ns=1, config=closed))
            tree = {f"jobs/{n}.hcl": batch_job(f"j{n}").encode() for n in range(MANY)}
            refused = await rig.gitops.preview_files("demo", tree)
            assert len(refused.problems) == 1
            assert refused.problems[0].startswith("jobs/3.hcl:")
            await rig.state.propose(SetSchedulerConfig(now_ns=1, config=SchedulerConfig()))
            preview = await rig.gitops.preview_files("demo", tree)
            assert [(job.job_id, job.action) for job in preview.jobs] == [("j3", "update")]
            assert preview.unchanged == MANY - 1

    asyncio.run(first())
    asyncio.run(second())
