"""Sources that depend on other sources: their commits wait, and go on when those are healthy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

from msgspec.structs import replace

from orchgit.model.evaluation import EvalStatus
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.services.gitops.pauses import pause_source, resume_source
from orchgit.services.gitops.sources import create_source
from tests.support.git_repos import GitAnswer, WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig


class Sources:
    """Two sources, `base` and `web`; a job is healthy once its evaluation is done."""

    def __init__(self, rig: GitopsRig, directory: Path) -> None:
        self.rig = rig
        self.works = {name: WorkTree(directory / name) for name in ("base", "web")}

    async def push(self, source: str, files: dict[str, str | bytes | None]) -> GitAnswer:
        self.works[source].commit(files)
        return await self.works[source].push(self.rig.url(source), "detach")

    async def evaluate(self, job_id: str, status: EvalStatus = EvalStatus.COMPLETE) -> None:
        with self.rig.context.snapshot() as snapshot:
            pending = snapshot.evaluations.of_job("default", job_id)
        done = [replace(each, status=status) for each in pending if not each.is_terminal]
        await self.rig.state.propose(UpsertEvaluations(now_ns=1, evaluations=done))

    def newest(self, source: str) -> Rollout:
        return max(self.rig.rollouts(source), key=lambda each: each.create_index)

    async def until_waiting(self, reason: str) -> None:
        await self.rig.until(lambda: reason in self.newest("web").status_description)


def run(tmp_path: Path, test: Callable[[Sources], Coroutine[None, None, None]]) -> None:
    async def running() -> None:
        async with gitops_rig(tmp_path / "data", evaluate=False) as rig:
            await test(Sources(rig, tmp_path))

    asyncio.run(running())


def test_commit_waits_until_the_source_it_depends_on_is_healthy(tmp_path: Path) -> None:
    async def test(sources: Sources) -> None:
        rig = sources.rig
        await create_source(rig.context, Source(name="web", depends_on=["base"]))
        answer = await sources.push("web", {"w.nomad": batch_job("w")})
        assert answer.returncode == 0, answer.output
        assert "source base does not exist" in answer.output
        assert sources.newest("web").status == "pending"
        assert rig.job("w") is None
        await create_source(rig.context, Source(name="base"))
        await sources.until_waiting("source base has not applied a commit yet")
        await sources.push("base", {"b.nomad": batch_job("b")})
        await sources.until_waiting("source base is ")
        await sources.evaluate("b", EvalStatus.FAILED)
        await sources.until_waiting("source base is not healthy at commit")
        await sources.push("base", {"b.nomad": batch_job("b", text="repaired")})
        await sources.evaluate("b")
        await rig.until(lambda: rig.job("w") is not None)
        rollout = sources.newest("web")
        assert rollout.was_applied
        assert len(rig.rollouts("web")) == 1

    run(tmp_path, test)


def test_dependency_of_the_file_holds_a_commit_up_and_a_cycle_refuses_it(tmp_path: Path) -> None:
    async def test(sources: Sources) -> None:
        rig = sources.rig
        await create_source(rig.context, Source(name="base"))
        await create_source(rig.context, Source(name="web"))
        await sources.push("base", {"b.nomad": batch_job("b")})
        policy = 'depends_on_sources = ["base"]\n'
        answer = await sources.push("web", {"w.nomad": batch_job("w"), "orchgit.hcl": policy})
        assert "waits for sources: source base is " in answer.output
        await sources.evaluate("b")
        await rig.until(lambda: rig.job("w") is not None)
        back = {"orchgit.hcl": 'depends_on_sources = ["web"]\n', "c.nomad": batch_job("c")}
        answer = await sources.push("base", back)
        assert answer.returncode != 0
        assert (
            "orchgit.hcl:1:24: sources would wait for each other: base -> web -> base"
            in answer.output
        )

    run(tmp_path, test)


def test_commit_that_drops_a_dependency_does_not_wait_for_it(tmp_path: Path) -> None:
    async def test(sources: Sources) -> None:
        await create_source(sources.rig.context, Source(name="web"))
        policy = 'source "web" {\n  depends_on_sources = ["base"]\n}\n'
        await sources.push("web", {"w.nomad": batch_job("w"), "orchgit.hcl": policy})
        assert sources.newest("web").status == "pending"
        await sources.push("web", {"orchgit.hcl": "# none\n"})
        await sources.rig.until(lambda: sources.rig.job("w") is not None)

    run(tmp_path, test)


def test_commit_waits_for_the_newest_commit_of_a_paused_source(tmp_path: Path) -> None:
    async def test(sources: Sources) -> None:
        rig = sources.rig
        await create_source(rig.context, Source(name="base"))
        await create_source(rig.context, Source(name="web", depends_on=["base"]))
        await sources.push("base", {"b.nomad": batch_job("b")})
        await sources.evaluate("b")
        await rig.until(lambda: sources.newest("base").status == "healthy")
        await pause_source(rig.context, "base")
        await sources.push("base", {"b.nomad": batch_job("b", text="newer")})
        newest = sources.works["base"].head()
        await sources.push("web", {"w.nomad": batch_job("w")})
        await sources.until_waiting(f"source base has not applied its newest commit {newest[:8]}")
        await resume_source(rig.context, "base")
        await rig.until(lambda: sources.newest("base").commit.id == newest)
        await sources.evaluate("b")
        await rig.until(lambda: rig.job("w") is not None)

    run(tmp_path, test)


def test_commit_that_changes_no_job_waits_for_nothing(tmp_path: Path) -> None:
    async def test(sources: Sources) -> None:
        await create_source(sources.rig.context, Source(name="web", depends_on=["base"]))
        answer = await sources.push("web", {"README.md": "text"})
        assert answer.returncode == 0, answer.output
        assert sources.newest("web").status == "healthy"

    run(tmp_path, test)
