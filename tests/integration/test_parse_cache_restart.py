"""A server that starts again parses what changed, not what it parsed before."""

import asyncio
from pathlib import Path

from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import gitops_rig

MANY = 200


def test_the_first_commit_after_a_restart_parses_one_file(tmp_path: Path) -> None:
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
