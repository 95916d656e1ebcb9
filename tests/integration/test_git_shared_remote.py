"""Many sources of one remote repository: one listing and one fetch serve all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.credentials import GitCredential
from orchgit.model.source import TagPolicy
from tests.support.git_repos import WorkTree, batch_job
from tests.support.git_servers import GitHttpServer
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree, GitHttpServer], Awaitable[None]]
NAMES = [f"team-{number}" for number in range(6)]
LONG_NS = 3_600_000_000_000
SHORT_NS = 200_000_000


def with_server(directory: Path, body: Body, **credentials: GitCredential) -> None:
    async def run() -> None:
        server = GitHttpServer(directory / "repos")
        work = WorkTree(directory / "repos" / "jobs.git")
        async with (
            server.running(),
            gitops_rig(directory / "data", GitopsConfig(credentials=credentials)) as rig,
        ):
            await body(rig, work, server)

    asyncio.run(run())


def commit_all(work: WorkTree, text: str) -> str:
    return work.commit({f"{name}/web.nomad": batch_job(name, text=text) for name in NAMES})


async def follow(rig: GitopsRig, url: str, interval_ns: int, **settings: object) -> None:
    fields = {"kind": "remote", "url": url, "poll_interval_ns": interval_ns, **settings}
    for name in NAMES:
        await rig.add_source(name, paths=[f"{name}/**"], **fields)


def applied(rig: GitopsRig) -> set[str]:
    return {rig.source(name).status.applied_commit for name in NAMES}


def test_sources_of_a_remote_share_the_first_listing_and_fetch(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, server: GitHttpServer) -> None:
        first = commit_all(work, "one")
        await follow(rig, server.url("jobs.git"), LONG_NS)
        await rig.until(lambda: applied(rig) == {first})
        listing_and_fetch = 2
        assert server.listings == listing_and_fetch
        for name in NAMES:
            assert rig.gitops.mirrors.get(name).open().has_commit(first)

    with_server(tmp_path, body)


def test_change_that_one_poll_finds_wakes_all_sources_of_the_remote(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, server: GitHttpServer) -> None:
        commit_all(work, "one")
        await follow(rig, server.url("jobs.git"), LONG_NS)
        await rig.until(lambda: applied(rig) == {work.head()})
        server.seen.clear()
        second = commit_all(work, "two")
        await rig.gitops.sync(NAMES[0])
        await rig.until(lambda: applied(rig) == {second})
        assert server.listings == 2  # one, and that of the fetch
        assert all(rig.rollouts(name)[0].trigger == "poll" for name in NAMES[1:])

    with_server(tmp_path, body)


def test_idle_sources_list_their_remote_once_in_an_interval(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, server: GitHttpServer) -> None:
        commit_all(work, "one")
        await follow(rig, server.url("jobs.git"), SHORT_NS)
        await rig.until(lambda: applied(rig) == {work.head()})
        await rig.until(lambda: all(rollouts_ended(rig, name) for name in NAMES))
        # What rollouts left to record may come late; an entry of each listing would come always.
        for _ in range(5):
            index = rig.state.store.watch.applied_index
            server.seen.clear()
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            await listed(rig, server, 10)
            # At most one listing in an interval, whatever the number of sources.
            assert (loop.time() - began_s) * 1e9 >= 9 * SHORT_NS
            if rig.state.store.watch.applied_index == index:
                return
        raise AssertionError("listings without news are recorded")

    with_server(tmp_path, body)


async def listed(rig: GitopsRig, server: GitHttpServer, count: int) -> None:
    """Waits until the server was listed this often. It tells of no event."""
    index = rig.state.store.watch.applied_index
    async with asyncio.timeout(60):
        while server.listings < count:
            await asyncio.sleep(0)
            await rig.state.store.watch.wait_applied(index + 1, 0.02)


def rollouts_ended(rig: GitopsRig, name: str) -> bool:
    found = rig.rollouts(name)
    return bool(found) and found[0].is_terminal


def test_source_with_another_credential_asks_for_itself(tmp_path: Path) -> None:
    key = GitCredential("http://elsewhere.example", "ada", "pw", sources=["*"])

    async def body(rig: GitopsRig, work: WorkTree, server: GitHttpServer) -> None:
        commit_all(work, "one")
        await follow(rig, server.url("jobs.git"), LONG_NS)
        await rig.until(lambda: applied(rig) == {work.head()})
        url = server.url("jobs.git")
        await rig.add_source("spy", kind="remote", url=url, credential="key")
        await rig.gitops.sync("spy")
        assert "it belongs to http://elsewhere.example" in rig.source("spy").status.last_error
        assert rig.source("spy").status.applied_commit == ""

    with_server(tmp_path, body, key=key)


def test_sources_of_one_remote_follow_refs_of_their_own(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, server: GitHttpServer) -> None:
        first = commit_all(work, "one")
        work.git("tag", "shop/v1.0.0")
        second = commit_all(work, "two")
        url, fields = server.url("jobs.git"), {"kind": "remote", "poll_interval_ns": LONG_NS}
        tags = TagPolicy(prefix="shop/v")
        await rig.add_source(
            "tagged", url=url, ref="semver:1.x", tags=tags, exclude=["**"], **fields
        )
        await rig.add_source("newest", url=url, paths=["team-0/**"], **fields)
        await rig.until(lambda: rig.source("newest").status.applied_commit == second)
        await rig.until(lambda: rig.source("tagged").status.applied_commit == first)

    with_server(tmp_path, body)


def test_failed_listing_is_shared_and_recovers(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree, server: GitHttpServer) -> None:
        commit_all(work, "one")
        server.status = 503
        await follow(rig, server.url("jobs.git"), LONG_NS)
        await rig.until(lambda: all("503" in rig.source(n).status.last_error for n in NAMES))
        with_that_of_git = 2
        assert server.listings == with_that_of_git
        server.mend()
        await rig.gitops.sync(NAMES[0])
        await rig.until(lambda: applied(rig) == {work.head()})

    with_server(tmp_path, body)
