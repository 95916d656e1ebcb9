"""What a source may reach of the server's disk and credentials: real repositories, real git."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from orchgit.errors import InvalidInputError, NotAllowedError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.remotes import Remote
from orchgit.gitops.git.text_files import TextFiles
from orchgit.gitops.git.urls import parse_url
from orchgit.gitops.sources.access import check_access, credential_of, opened_url
from orchgit.model.source import Source
from orchgit.services.gitops.rollouts import delete_rollouts
from orchgit.services.gitops.sources import remove_source
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree, WorkTree], Awaitable[None]]
LONG_NS = 3_600_000_000_000


def with_rig(directory: Path, body: Body) -> None:
    """The server may read below `open`; a private repository lies beside it."""

    async def run() -> None:
        config = GitopsConfig(local_paths=(str(directory / "open"),))
        private = WorkTree(directory / "private")
        private.commit({"secret.hcl": batch_job("secret")})
        work = WorkTree(directory / "open" / "work")
        work.commit({"web.hcl": batch_job("web")})
        async with gitops_rig(directory / "data", config) as rig:
            await body(rig, work, private)

    asyncio.run(run())


async def follow(rig: GitopsRig, url: str, name: str = "demo") -> str:
    """The error that the source shows after a round; as if its entry were in the log already."""
    kind = "remote" if "://" in url else "local"
    await rig.add_source(name, kind=kind, url=url, ref="main", poll_interval_ns=LONG_NS)
    await rig.gitops.sync(name)
    return rig.source(name).status.last_error


def test_paths_outside_the_allowed_directories_are_never_read(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, private: WorkTree) -> None:
        assert await follow(rig, f"file://{work.path}") == ""
        assert rig.job("web") is not None
        (tmp_path / "open" / "link").symlink_to(private.path)
        for number, path in enumerate(
            (
                f"file://{private.path}",
                str(private.path),
                f"{tmp_path}/open/../private",
                f"{tmp_path}/open/link",
                f"{tmp_path}/openish/../private",
            )
        ):
            error = await follow(rig, path, f"evil-{number}")
            assert "does not allow it" in error, path
            assert "local_paths" in error
        assert rig.job("secret") is None

    with_rig(tmp_path, body)


def test_repository_with_alternate_objects_is_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, private: WorkTree) -> None:
        opened = tmp_path / "open"
        private.git("clone", "--quiet", "--bare", "--shared", ".", str(opened / "borrower"))
        private.git("worktree", "add", "--quiet", str(opened / "tree"), "-b", "main2")
        linked = opened / "linked"
        linked.mkdir()
        (linked / "HEAD").write_text("ref: refs/heads/main\n")
        (linked / "refs").mkdir()
        (linked / "objects").symlink_to(private.path / ".git" / "objects")
        for name in ("borrower", "tree", "linked"):
            error = await follow(rig, str(opened / name), name)
            assert "keeps objects in another directory" in error, name
        assert rig.job("secret") is None

    with_rig(tmp_path, body)


def test_configured_source_may_use_its_path(tmp_path: Path) -> None:
    mine = Source(name="mine", kind="local", url=str(tmp_path))
    config = GitopsConfig(sources=(mine,))
    assert opened_url(config, mine, "s1").text == str(tmp_path)
    other = Source(name="mine", kind="local", url=str(tmp_path.parent))
    with pytest.raises(NotAllowedError, match="the configuration of s1 does not allow it"):
        opened_url(config, other, "s1")


@pytest.mark.parametrize(
    "url",
    [
        "file:///srv/git/%2e%2e/private",
        "file:///srv/git/x?y",
        "file://host/srv/git",
        "file:relative",
        "https://example.org/org/../other/private.git",
        "https://example.org/org/%2e%2e/other/private.git",
        "git@example.org:org/../other.git",
        "ext::sh -c id",
        "-u/bin/sh",
        "relative/path",
        "ssh://-oProxyCommand=id/x",
    ],
)
def test_ambiguous_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use repository URL"):
        parse_url(url)


CREDENTIAL = GitCredential("https://example.org", "ada", "hunter2")


def listed(**lists: list[str]) -> GitopsConfig:
    credential = GitCredential("https://example.org", "ada", "hunter2", **lists)
    return GitopsConfig(credentials={"key": credential})


def private_source(url: str = "https://example.org/org/app.git", name: str = "app") -> Source:
    return Source(name=name, kind="remote", url=url, credential="key")


@pytest.mark.parametrize(
    ("config", "source", "allowed"),
    [
        pytest.param(listed(), private_source(), False, id="no-list"),
        pytest.param(listed(sources=["app"]), private_source(), True, id="name"),
        pytest.param(listed(sources=["app"]), private_source(name="evil"), False, id="other-name"),
        pytest.param(listed(urls=["https://example.org/org/*"]), private_source(), True, id="url"),
        pytest.param(
            listed(sources=["app"], urls=["https://example.org/org/*"]),
            private_source("https://example.org/secret/app.git"),
            False,
            id="name-but-not-url",
        ),
    ],
)
def test_credential_is_used_only_by_its_listed_sources(
    config: GitopsConfig, source: Source, allowed: bool
) -> None:
    if allowed:
        assert credential_of(config, source, "s1") is not None
        return
    with pytest.raises(NotAllowedError, match=r"gitops.credential \"key\"") as refused:
        check_access(config, source, "s1")
    assert "hunter2" not in str(refused.value)


def test_credential_is_used_by_the_configured_source_that_names_it() -> None:
    config = GitopsConfig(credentials={"key": CREDENTIAL}, sources=(private_source(),))
    assert credential_of(config, private_source(), "s1") == CREDENTIAL
    elsewhere = private_source("https://example.org/secret/app.git")
    with pytest.raises(NotAllowedError, match="does not list them"):
        credential_of(config, elsewhere, "s1")


def test_built_in_source_has_no_url_and_no_credential() -> None:
    for source in (Source(name="x", url="/srv/x"), Source(name="x", credential="key")):
        with pytest.raises(InvalidInputError, match="it is built in"):
            check_access(GitopsConfig(), source, "s1")


def environment(url: str, directory: Path) -> dict[str, str]:
    return Remote(parse_url(url)).environment(TextFiles(directory), 30)


def test_git_is_limited_to_the_protocol_of_the_url(tmp_path: Path) -> None:
    for url in ("https://example.org/x", "ssh://example.org/x", "git://example.org/x", "/srv/x"):
        allowed = environment(url, tmp_path)["GIT_ALLOW_PROTOCOL"]
        assert allowed == parse_url(url).protocol


def test_ssh_without_a_credential_uses_no_key_of_the_servers_user(tmp_path: Path) -> None:
    command = environment("git@example.org:x", tmp_path)["GIT_SSH_COMMAND"]
    for setting in ("-F none", "IdentityAgent=none", "IdentityFile=none", "File=/dev/null"):
        assert setting in command


def test_fetched_objects_are_deleted_before_a_source_of_the_same_name(
    tmp_path: Path,
) -> None:
    """Else a push that names the objects of a private repository could make them public."""

    async def body(rig: GitopsRig, work: WorkTree, private: WorkTree) -> None:
        assert await follow(rig, str(work.path)) == ""
        mirror = rig.gitops.mirrors.get("demo")
        assert mirror.open().has_commit(work.head())
        await remove_source(rig.context, "demo")
        await delete_rollouts(rig.context, [each.id for each in rig.rollouts()])
        await rig.add_source("demo")
        await rig.gitops.synchronizer.wait_until_current("demo")
        assert not mirror.open().has_commit(work.head())
        pushed = await private.push(rig.url("demo"), "detach")
        assert pushed.returncode == 0, pushed.output
        await remove_source(rig.context, "demo")
        await rig.add_source("demo")
        await rig.gitops.synchronizer.wait_until_current("demo")
        assert mirror.open().has_commit(private.head()), "a built-in repository is kept"

    with_rig(tmp_path, body)
