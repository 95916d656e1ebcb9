"""Sources that are followed: over file, HTTP and ssh, by webhook and by watching a path."""

import asyncio
import hashlib
import hmac
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.limits import GitLimits
from tests.support.git_repos import WorkTree, batch_job
from tests.support.git_servers import ssh_server
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree], Awaitable[None]]
LONG_NS = 3_600_000_000_000
SECOND_NS = 1_000_000_000


def with_rig(directory: Path, body: Body, config: GitopsConfig | None = None) -> None:
    async def run() -> None:
        async with gitops_rig(directory / "data", config) as rig:
            await body(rig, WorkTree(directory / "upstream"))

    asyncio.run(run())


async def follow(rig: GitopsRig, url: object, **settings: object) -> None:
    """A source that is looked at only when it is told to."""
    fields = {"kind": "remote", "ref": "main", "poll_interval_ns": LONG_NS, **settings}
    await rig.add_source("demo", url=str(url), **fields)
    await rig.gitops.sync("demo")


def test_file_url_is_followed_and_an_unchanged_commit_is_not_applied_again(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"web.hcl": batch_job("web")}, "One")
        await follow(rig, f"file://{work.path}")
        assert rig.source().status.applied_commit == first
        assert rig.rollouts()[0].commit.subject == "One"
        await rig.until(lambda: rig.rollouts()[0].is_terminal)
        index = rig.state.store.watch.applied_index
        rig.parser.parsed.clear()
        await rig.gitops.sync("demo")
        assert rig.state.store.watch.applied_index == index
        assert rig.parser.parsed == []
        second = work.commit({"web.hcl": batch_job("web", text="two")}, "Two")
        await rig.gitops.sync("demo")
        assert rig.source().status.applied_commit == second

    with_rig(tmp_path, body)


def test_remote_source_is_polled(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source(
            "demo", kind="remote", url=str(work.path), ref="main", poll_interval_ns=SECOND_NS // 10
        )
        work.commit({"web.hcl": batch_job("web")})
        await rig.until(lambda: rig.job("web") is not None)
        assert rig.rollouts()[0].trigger == "poll"

    with_rig(tmp_path, body)


def test_source_is_fetched_over_http(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("upstream", paused=True)
        commit = work.commit({"web.hcl": batch_job("web")})
        await work.push(rig.url("upstream"))
        await follow(rig, rig.url("upstream"))
        assert rig.source().status.applied_commit == commit

    with_rig(tmp_path, body)


def test_tag_commit_and_other_branch_can_be_followed(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"web.hcl": batch_job("web")})
        work.git("tag", "--annotate", "--message", "one", "v1")
        second = work.commit({"web.hcl": batch_job("web", text="two")})
        work.git("branch", "prod")
        for ref, wanted in (("v1", first), ("refs/heads/prod", second)):
            await follow(rig, work.path, ref=ref)
            assert rig.source().status.applied_commit == wanted, rig.source().status
        await follow(rig, work.path, ref=first, allow_rewind=True)
        assert rig.source().status.applied_commit == first

    with_rig(tmp_path, body)


def test_newest_tag_of_a_range_is_followed_also_on_another_branch(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        async def looked(expected: str, error: str = "") -> None:
            await rig.gitops.sync("demo")
            status = rig.source().status
            assert status.applied_commit == expected, status
            assert error in status.last_error, status

        def tagged(tag: str, text: str) -> str:
            commit = work.commit({"web.hcl": batch_job("web", text=text)})
            work.git("tag", tag)
            return commit

        base = work.commit({"web.hcl": batch_job("web")})
        await follow(rig, work.path, ref="semver:>=1.2 <2")
        assert "cannot find a tag for 'semver:>=1.2 <2'" in rig.source().status.last_error
        old = tagged("v1.2.0", "old")
        await looked(old)
        assert rig.rollouts()[0].ref == "refs/tags/v1.2.0"
        work.git("checkout", "--quiet", "-b", "next", base)
        tagged("v2.0.0", "too new")
        tagged("v1.3.0-rc.1", "not released")
        new = tagged("v1.3.0", "new")
        await looked(new)
        work.git("tag", "--delete", "v1.3.0")
        await looked(new, "cannot go back from tag v1.3.0 to v1.2.0")
        work.git("tag", "v1.3.0", base)
        await looked(new, "tag v1.3.0 was moved")
        work.git("tag", "--force", "v1.3.0", new)
        await looked(new)
        assert rig.source().status.last_error == ""
        work.git("tag", "--delete", "v1.3.0", "v1.2.0")
        await looked(new, "cannot find a tag for")
        job = rig.job("web")
        assert job is not None
        assert not job.stop

    with_rig(tmp_path, body)


def test_outage_or_empty_tree_of_the_remote_stops_no_job(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        await follow(rig, work.path)
        hidden = work.path.with_name("hidden")
        work.path.rename(hidden)
        await rig.gitops.sync("demo")
        assert "cannot read" in rig.source().status.last_error
        hidden.rename(work.path)
        await follow(rig, work.path, ref="gone")
        assert "cannot find ref 'gone'; branches there: main" in rig.source().status.last_error
        await follow(rig, work.path)
        await rig.until(lambda: rig.source().status.last_error == "")
        work.commit({"web.hcl": None, "README": "empty now"})
        await rig.gitops.sync("demo")
        job = rig.job("web")
        assert job is not None
        assert not job.stop
        assert "empty tree deletes nothing" in rig.source().status.last_error

    with_rig(tmp_path, body)


def test_refused_commit_is_recorded_once_and_the_next_one_is_applied(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        await follow(rig, work.path)
        bad = work.commit({"web.hcl": "job {"})
        for _ in range(3):
            rig.gitops.wake("demo", "webhook")
            await rig.until(lambda: rig.source().status.seen_commit == bad)
        refused = [each for each in rig.rollouts() if each.commit.id == bad]
        assert len(refused) == 1
        assert refused[0].problems[0].startswith("web.hcl:1:")
        assert rig.source().status.last_error.startswith("refused commit")
        good = work.commit({"web.hcl": batch_job("web", text="x")})
        await rig.gitops.sync("demo")
        assert rig.source().status.applied_commit == good
        assert rig.source().status.last_error == ""

    with_rig(tmp_path, body)


def test_only_the_newest_of_several_commits_is_applied(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        for number in range(4):
            work.commit({"web.hcl": batch_job("web", text=str(number))})
        await follow(rig, work.path)
        (rollout,) = rig.rollouts()
        assert rollout.commit.id == work.head()

    with_rig(tmp_path, body)


def test_rewritten_history_is_refused_without_allow_rewind(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"web.hcl": batch_job("web")})
        await follow(rig, work.path)
        work.git("commit", "--amend", "--quiet", "--message", "Rewritten")
        await rig.gitops.sync("demo")
        assert "does not descend" in rig.source().status.last_error
        assert rig.source().status.applied_commit == first
        await follow(rig, work.path, allow_rewind=True)
        assert rig.source().status.applied_commit == work.head()

    with_rig(tmp_path, body)


def test_reverted_commit_is_not_applied_again(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"web.hcl": batch_job("web", text="one")})
        await follow(rig, work.path)
        bad = work.commit({"web.hcl": batch_job("web", text="two")})
        await rig.gitops.sync("demo")
        await rig.gitops.revert(rig.rollouts()[0].id)
        assert rig.source().status.applied_commit == first
        await rig.gitops.sync("demo")
        assert rig.source().status.applied_commit == first
        assert rig.source().status.quarantined == [bad]
        third = work.commit({"web.hcl": batch_job("web", text="three")})
        await rig.gitops.sync("demo")
        assert rig.source().status.applied_commit == third

    with_rig(tmp_path, body)


def test_revert_while_the_source_fails_keeps_quarantine_and_error(
    tmp_path: Path,
) -> None:
    """Both are written to the source's status, and neither undoes the other."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")}, "Good")
        await follow(rig, f"file://{work.path}")
        bad = work.commit({"web.hcl": batch_job("web", text="bad")}, "Bad")
        await rig.gitops.sync("demo")
        rollout = rig.rollouts()[0]
        assert rollout.commit.id == bad
        work.path.rename(tmp_path / "away")
        lock = rig.gitops.mirrors.get("demo").lock
        looking = asyncio.create_task(rig.gitops.sync("demo"))
        async with asyncio.timeout(20):
            while not lock.locked():
                await asyncio.sleep(0)
        await asyncio.gather(looking, rig.gitops.revert(rollout.id))
        status = rig.source().status
        assert status.quarantined == [bad]
        assert "cannot read" in status.last_error

    with_rig(tmp_path, body)


@pytest.mark.parametrize("over", ["file", "http"])
def test_branch_that_looks_like_an_option_runs_no_command(tmp_path: Path, over: str) -> None:
    trap = tmp_path / "trap"
    branch = f"--upload-pack=touch${{IFS}}{trap};x"

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        commit = work.commit({"web.hcl": batch_job("web")})
        work.git("update-ref", "--", f"refs/heads/{branch}", commit)
        url = str(work.path)
        if over == "http":
            await rig.add_source("upstream", paused=True)
            await rig.gitops.synchronizer.wait_until_current("upstream")
            shutil.copytree(
                work.path / ".git", rig.gitops.mirrors.get("upstream").path, dirs_exist_ok=True
            )
            url = rig.url("upstream")
        for ref in (branch, f"refs/heads/{branch}"):
            await follow(rig, url, ref=ref)
            assert "must not start with '-'" in rig.source().status.last_error
        await follow(rig, url, ref="main")
        assert rig.source().status.applied_commit == commit
        await follow(rig, f"--upload-pack=touch {trap}")
        assert "cannot use repository URL" in rig.source().status.last_error
        await follow(rig, f"ext::touch {trap}")
        assert "cannot use repository URL" in rig.source().status.last_error

    with_rig(tmp_path, body)
    assert not trap.exists()


def test_push_to_a_branch_that_looks_like_an_option_is_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("upstream", paused=True)
        work.commit({"web.hcl": batch_job("web")})
        answer = await work.push(rig.url("upstream"), ref="HEAD:refs/heads/--upload-pack=x")
        assert answer.returncode != 0
        assert "must not start with '-'" in answer.output

    with_rig(tmp_path, body)


def test_hostile_configuration_of_a_local_repository_runs_no_command(tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        work.git("config", "uploadpack.packObjectsHook", f"touch {trap};")
        work.git("config", "core.fsmonitor", f"touch {trap}")
        hook = work.path / ".git" / "hooks" / "reference-transaction"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
        hook.chmod(0o755)
        await follow(rig, work.path)
        assert rig.job("web") is not None

    with_rig(tmp_path, body)
    assert not trap.exists()


def test_credential_is_sent_to_its_own_origin_only(tmp_path: Path) -> None:
    """The server that is asked sees a login; another origin never does, and errors show none."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        right = GitCredential(origin, "ada", "hunter2", sources=["demo"])
        wrong = GitCredential("http://other.example", "ada", "hunter2", sources=["demo"])
        config = GitopsConfig(credentials={"right": right, "wrong": wrong})
        async with server, gitops_rig(tmp_path / "data", config) as rig:
            await follow(rig, f"{origin}/x.git", credential="wrong")
            assert not seen
            assert "belongs to http://other.example" in rig.source().status.last_error
            await follow(rig, f"{origin}/x.git", credential="missing")
            assert not seen
            await follow(rig, f"{origin}/x.git", credential="right")
            assert b"Authorization: Basic YWRhOmh1bnRlcjI=" in seen[0]
            error = rig.source().status.last_error
            assert "cannot read http://127.0.0.1" in error
            assert "hunter2" not in error
            assert "YWRh" not in error

    asyncio.run(run())


def test_slow_remote_ends_in_a_timeout_error(tmp_path: Path) -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        config = GitopsConfig(limits=GitLimits(list_timeout_s=0.3))
        async with server, gitops_rig(tmp_path / "data", config) as rig:
            await follow(rig, f"http://127.0.0.1:{port}/x.git")
            assert "within 0.3 s, the limit list_timeout" in rig.source().status.last_error

    asyncio.run(run())


def test_webhook_wakes_its_source(tmp_path: Path) -> None:
    secret = "s3cret"

    def signed(body: bytes, delivery: str) -> dict[str, str]:
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return {
            "X-Hub-Signature-256": f"sha256={digest}",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": delivery,
        }

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("upstream", paused=True)
        work.commit({"web.hcl": batch_job("web")})
        await work.push(rig.url("upstream"))
        await follow(rig, rig.url("upstream"), webhook_secret="hook")
        await rig.until(lambda: rig.rollouts()[0].is_terminal)
        commit = work.commit({"web.hcl": batch_job("web", text="two")})
        await work.push(rig.url("upstream"))
        event = {"ref": "refs/heads/main", "repository": {"clone_url": rig.url("upstream")}}
        text = json.dumps(event).encode()
        async with httpx.AsyncClient(base_url=rig.http) as client:
            path = "/v1/gitops/webhooks/github"
            assert (await client.post(path, content=text)).status_code == 401
            forged = signed(text, "1") | {"X-Hub-Signature-256": "sha256=" + "0" * 64}
            assert (await client.post(path, content=text, headers=forged)).status_code == 401
            huge = b"x" * (1024 * 1024 + 1)
            assert (await client.post(path, content=huge)).status_code == 413
            answer = await client.post(path, content=text, headers=signed(text, "1"))
            assert (answer.status_code, answer.json()) == (202, {"Woken": ["demo"]})
            again = await client.post(path, content=text, headers=signed(text, "1"))
            assert again.status_code == 409
            bad = b"[1, 2"
            assert (
                await client.post(path, content=bad, headers=signed(bad, "2"))
            ).status_code == 400
        await rig.until(lambda: rig.source().status.applied_commit == commit)
        assert rig.rollouts()[0].trigger == "webhook"

    with_rig(tmp_path, body, GitopsConfig(webhook_secrets={"hook": secret}))


def test_commit_in_a_watched_local_path_is_applied(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        await follow(rig, work.path, kind="local")
        assert rig.job("web") is not None
        for number in range(2):
            commit = work.commit({"web.hcl": batch_job("web", text=str(number))})
            await rig.until(lambda c=commit: rig.source().status.applied_commit == c)
        assert rig.rollouts()[0].trigger == "watch"

    with_rig(tmp_path, body)


@pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="no sshd on this machine")
def test_source_is_fetched_over_ssh_from_a_known_host(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "upstream")
        commit = work.commit({"web.hcl": batch_job("web")})
        async with ssh_server(tmp_path / "ssh") as server:
            origin, key = f"ssh://127.0.0.1:{server.port}", str(server.user_key)
            known = GitCredential(
                origin, ssh_key_file=key, ssh_known_hosts=server.known_hosts, sources=["demo"]
            )
            stranger = GitCredential(
                origin, ssh_key_file=key, ssh_known_hosts_file="/dev/null", sources=["demo"]
            )
            config = GitopsConfig(credentials={"key": known, "stranger": stranger})
            async with gitops_rig(tmp_path / "data", config) as rig:
                url = server.url(work.path)
                await follow(rig, url, credential="stranger")
                assert "is not among the known hosts" in rig.source().status.last_error
                await follow(rig, url, credential="key")
                assert rig.source().status.applied_commit == commit, rig.source().status

    asyncio.run(run())
