"""`git push -o NAME`: what each option does, and that a misspelt one does not deploy."""

import asyncio
from pathlib import Path

import pytest

from orchgit.errors import InvalidInputError
from orchgit.gitops.remote.push_options import PushOptions, read_push_options
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import gitops_rig


def test_dry_run_of_a_paused_source_shows_the_plan_and_pushes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source("demo", paused=True)
            work = WorkTree(tmp_path / "work")
            work.commit({"web.hcl": batch_job("web")})
            answer = await work.push(rig.url("demo"), "dry-run")
            assert answer.returncode != 0
            assert "+ web: place 0" in answer.output
            assert "Source demo is paused" in answer.output
            assert "dry run: nothing was changed" in answer.output
            listed = await work.run("ls-remote", rig.url("demo"))
            assert listed.output == ""
            assert rig.job("web") is None

    asyncio.run(run())


def test_unknown_option_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            work.commit({"web.hcl": batch_job("web")})
            for ref in ("HEAD:refs/heads/main", "HEAD:refs/heads/idea"):
                answer = await work.push(rig.url("demo"), "dryrun", ref=ref)
                assert answer.returncode != 0
                assert "cannot push with option 'dryrun': did you mean -o dry-run?" in answer.output
            listed = await work.run("ls-remote", rig.url("demo"))
            assert listed.output == ""
            assert rig.job("web") is None
            assert rig.rollouts() == []

    asyncio.run(run())


def test_known_push_options_are_accepted() -> None:
    assert read_push_options([]) == PushOptions()
    assert read_push_options(["dry-run"]) == PushOptions(dry_run=True)
    assert read_push_options(["detach", "dry-run"]) == PushOptions(detach=True, dry_run=True)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("dryrun", "dry-run"),
        ("dry_run", "dry-run"),
        ("Dry-Run", "dry-run"),
        ("detatch", "detach"),
        ("DETACH", "detach"),
        ("dry-run=true", "dry-run"),
    ],
)
def test_misspelt_option_names_the_nearest(given: str, nearest: str) -> None:
    with pytest.raises(InvalidInputError, match=f"did you mean -o {nearest}?"):
        read_push_options([given])


def test_every_unknown_option_is_named() -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_push_options(["ci.skip", "dry-run", "x" * 5_000])
    lines = str(caught.value).splitlines()
    assert [line[:31] for line in lines] == [
        "cannot push with option 'ci.ski",
        "cannot push with option 'xxxxxx",
    ]
    assert max(map(len, lines)) < 400
