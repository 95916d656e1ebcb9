"""Several sources of one built-in repository: one push plans and applies all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.source import Source, TagPolicy
from orchgit.replication.commands.gitops import PutSource
from orchgit.services.gitops.sources import change_source, create_source
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import gitops_cluster
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree], Awaitable[None]]


def with_rig(directory: Path, body: Body) -> None:
    async def run() -> None:
        async with gitops_rig(directory / "data") as rig:
            await body(rig, WorkTree(directory / "work"))

    asyncio.run(run())


async def add(rig: GitopsRig, name: str, **settings: object) -> None:
    source = Source(name=name, repository="mono", paths=[f"{name}/**"], **settings)  # type: ignore[arg-type]
    await create_source(rig.context, source)
    await rig.gitops.sync(name)


def greeting(name: str) -> str:
    return 'variable "who" {}\n' + batch_job(name, text="${var.who}")


def argument(rig: GitopsRig, job_id: str) -> str:
    job = rig.job(job_id)
    assert job is not None
    return str(job.task_groups[0].tasks[0].config["args"][0])


def test_one_push_applies_every_source_with_its_own_settings(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop", variables={"who": "customers"})
        await add(rig, "bank", variables={"who": "tellers"})
        commit = work.commit({"shop/a.nomad": greeting("a"), "bank/b.nomad": greeting("b")})
        answer = await work.push(rig.url("mono"))
        assert answer.returncode == 0, answer.output
        bank, shop = (answer.output.index(f"Source {name}:") for name in ("bank", "shop"))
        assert bank < answer.output.index("+ b: place") < shop < answer.output.index("+ a: place")
        assert (argument(rig, "a"), argument(rig, "b")) == ("customers", "tellers")
        for name in ("bank", "shop"):
            assert rig.source(name).status.applied_commit == commit
            (rollout,) = rig.rollouts(name)
            assert rollout.is_terminal
            assert rollout.ref == "refs/heads/main"
        assert rig.gitops.synchronizer.refs("mono") == {"refs/heads/main": commit}
        clone = await work.run("clone", "--quiet", rig.url("mono"), str(tmp_path / "clone"))
        assert clone.returncode == 0, clone.output
        assert (await work.run("ls-remote", rig.url("shop"))).returncode != 0
        second = work.commit({"shop/a.nomad": greeting("a") + "# more\n", "bank/b.nomad": None})
        work.commit({"bank/c.nomad": greeting("c")})
        answer = await work.push(rig.url("mono"), "detach")
        assert answer.returncode == 0, answer.output
        assert answer.output.count("orchgit rollout watch") == 2
        assert rig.job("b") is not None
        assert rig.job("b").stop  # type: ignore[union-attr]
        assert rig.source("shop").status.applied_commit == work.head() != second

    with_rig(tmp_path, body)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"shop/a.nomad": batch_job("a"), "bank/b.nomad": "job {"}, "bank/b.nomad:1:"),
        (
            {"shop/a.nomad": batch_job("a"), "bank/a.nomad": batch_job("a")},
            "job 'a' is also that of source 'bank' (bank/a.nomad:1)",
        ),
    ],
    ids=["problem", "same-job"],
)
def test_problem_of_one_source_refuses_the_push_for_all(
    tmp_path: Path, files: dict[str, str], text: str
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop")
        await add(rig, "bank")
        work.commit({**files})
        answer = await work.push(rig.url("mono"))
        assert answer.returncode != 0
        assert text in answer.output
        assert rig.job("a") is None
        assert rig.gitops.synchronizer.refs("mono") == {}
        assert {name: rig.source(name).status.applied_commit for name in ("shop", "bank")} == {
            "shop": "",
            "bank": "",
        }

    with_rig(tmp_path, body)


def test_branches_of_one_repository_are_followed_by_their_own_sources(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop")
        await add(rig, "bank", ref="prod")
        first = work.commit({"shop/a.nomad": batch_job("a"), "bank/b.nomad": batch_job("b")})
        dry = await work.push(rig.url("mono"), "dry-run")
        assert "+ a: place" in dry.output
        assert rig.gitops.synchronizer.refs("mono") == {}
        assert (await work.push(rig.url("mono"))).returncode == 0
        assert rig.job("a") is not None
        assert rig.job("b") is None
        assert (await work.push(rig.url("mono"), ref="HEAD:refs/heads/prod")).returncode == 0
        assert rig.job("b") is not None
        assert rig.source("bank").status.applied_commit == first
        refused = await work.push(rig.url("mono"), ref=":refs/heads/prod")
        assert "source bank follows this branch" in refused.output

    with_rig(tmp_path, body)


def test_paused_source_waits_while_the_others_are_applied(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop", paused=True)
        await add(rig, "bank")
        commit = work.commit({"shop/a.nomad": batch_job("a"), "bank/b.nomad": batch_job("b")})
        answer = await work.push(rig.url("mono"))
        assert answer.returncode == 0, answer.output
        assert "Source shop is paused" in answer.output
        assert (rig.job("a"), rig.source("bank").status.applied_commit) == (None, commit)
        await change_source(rig.context, "shop", lambda source: replace(source, paused=False))
        await rig.gitops.sync("shop")
        assert rig.job("a") is not None

    with_rig(tmp_path, body)


def test_source_that_is_added_later_applies_what_was_pushed_before(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop")
        commit = work.commit({"shop/a.nomad": batch_job("a"), "bank/b.nomad": batch_job("b")})
        await work.push(rig.url("mono"))
        await add(rig, "bank")
        assert rig.source("bank").status.applied_commit == commit
        assert rig.job("b") is not None

    with_rig(tmp_path, body)


def test_pushed_tag_is_applied_if_it_is_the_newest_of_the_range(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop", ref="semver:>=1 <2", tags=TagPolicy(prefix="shop/v"))

        async def tagged(tag: str, text: str) -> str:
            commit = work.commit({"shop/a.nomad": batch_job("a", text=text)})
            work.git("tag", "--annotate", "--message", tag, tag)
            answer = await work.push(rig.url("mono"), ref=f"refs/tags/{tag}:refs/tags/{tag}")
            assert answer.returncode == 0, answer.output
            return commit

        await work.push(rig.url("mono"))
        assert rig.source("shop").status.applied_commit == ""
        new = await tagged("shop/v1.10.0", "new")
        assert (rig.source("shop").status.applied_commit, argument(rig, "a")) == (new, "new")
        await tagged("shop/v1.9.0", "old")
        await tagged("v1.11.0", "of another product")
        await tagged("shop/v2.0.0", "out of the range")
        await rig.gitops.sync("shop")
        assert (rig.source("shop").status.applied_commit, argument(rig, "a")) == (new, "new")
        answer = await work.push(rig.url("mono"), ref=":refs/tags/shop/v1.10.0")
        assert answer.returncode == 0, answer.output
        await rig.gitops.sync("shop")
        assert (
            "go back from tag shop/v1.10.0 to shop/v1.9.0" in rig.source("shop").status.last_error
        )
        assert argument(rig, "a") == "new"

    with_rig(tmp_path, body)


def test_repository_is_shared_by_built_in_sources_only_and_never_changes(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await add(rig, "shop")
        await rig.add_source("team", kind="remote", url="https://example.org/x.git", paused=True)
        remote = Source(name="mono", kind="remote", url="https://example.org/secret.git")
        for source in (remote, Source(name="thief", repository="team")):
            with pytest.raises(RefusedError, match="only built-in sources share one"):
                await rig.state.propose(PutSource(now_ns=1, source=source))
        with pytest.raises(InvalidInputError, match="cannot change the repository"):
            await change_source(rig.context, "shop", lambda known: replace(known, repository="x"))
        moved = Source(name="shop", repository="other")
        with pytest.raises(RefusedError, match="its repository is 'mono'"):
            await rig.state.propose(PutSource(now_ns=1, source=moved))
        with pytest.raises(InvalidInputError, match="only a built-in source names a repository"):
            await create_source(rig.context, replace(remote, name="y", repository="z"))
        assert (await work.run("ls-remote", rig.url("team"))).returncode != 0

    with_rig(tmp_path, body)


def test_every_server_has_the_repository_of_several_sources(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_cluster(tmp_path) as cluster:
            leader = await cluster.leader()
            for name in ("shop", "bank"):
                await leader.rig.add_source(name, repository="demo", paths=[f"{name}/**"])
            work = WorkTree(tmp_path / "work")
            commit = work.commit({"shop/a.nomad": batch_job("a"), "bank/b.nomad": batch_job("b")})
            answer = await work.push(leader.rig.url("demo"))
            assert answer.returncode == 0, answer.output
            await cluster.caught_up()
            for member in cluster.members:
                listed = await work.run("ls-remote", member.rig.url("demo"))
                assert f"{commit}\trefs/heads/main" in listed.output

    asyncio.run(run())
