"""Real git servers that break: each fault is a sentence in the source's status, and no job moves.

HTTP and HTTPS by `git http-backend` with a private authority, `git daemon`, sshd, paths. A source
follows its repository; then each fault in turn meets a new commit; at last the commit is applied.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchgit.gitops.config import GitopsConfig, TransportConfig
from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.limits import GitLimits
from orchgit.model.rollout import JobAction
from tests.support.certificates import Authority
from tests.support.fault_proxy import CLEAN, Faults, Link
from tests.support.git_repos import WorkTree, batch_job
from tests.support.git_servers import (
    LOGIN_PAGE,
    GitHttpServer,
    HttpProxy,
    faulty_link,
    git_daemon,
    server_context,
    ssh_server,
)
from tests.support.gitops_rig import GitopsRig, gitops_rig

LONG_NS = 3_600_000_000_000
LIMITS = GitLimits(list_timeout_s=10.0, fetch_timeout_s=60.0, silence_timeout_s=5.0)
"""Short enough to be waited for, and long enough for what has to succeed on a busy machine."""
needs_sshd = pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="no sshd here")


@dataclass
class Trial:
    """A source with one applied commit, and a newer one that waits in its repository."""

    rig: GitopsRig
    work: WorkTree
    url: str
    commits: int = 0

    async def follow(self, **settings: object) -> None:
        fields = {"kind": "remote", "ref": "main", "poll_interval_ns": LONG_NS, **settings}
        await self.rig.add_source("demo", url=self.url, **fields)
        await self.rig.gitops.sync("demo")
        assert self.rig.source().status.applied_commit == self.work.head(), self.error
        self.commit()

    def commit(self) -> str:
        """A commit that deletes a job, and is too large to come in one piece."""
        self.commits += 1
        return self.work.commit(
            {
                "web.hcl": batch_job("web", text=str(self.commits)),
                "db.hcl": None if self.commits == 2 else batch_job("db"),
                "large.bin": os.urandom(400_000),
            }
        )

    @property
    def error(self) -> str:
        return self.rig.source().status.last_error

    async def expect(self, text: str) -> None:
        """Checks once; the status has the sentence, and every job is as it was."""
        before = self.jobs()
        deletions = self.deletions
        await self.rig.gitops.sync("demo")
        assert text in self.error, f"expected {text!r}, got {self.error!r}"
        assert self.error.startswith("cannot "), self.error
        assert self.jobs() == before
        assert self.deletions == deletions

    @property
    def deletions(self) -> int:
        jobs = [job for rollout in self.rig.rollouts() for job in rollout.jobs]
        return sum(job.action == JobAction.DELETE for job in jobs)

    def jobs(self) -> list[tuple[str, int, bool]]:
        found = [self.rig.job(name) for name in ("web", "db")]
        return [(job.id, job.job_modify_index, job.stop) for job in found if job is not None]

    async def expect_recovery(self) -> None:
        await self.rig.gitops.sync("demo")
        assert self.rig.source().status.applied_commit == self.work.head(), self.error
        assert self.error == ""


@asynccontextmanager
async def trial(
    directory: Path, url: str, config: GitopsConfig, **settings: object
) -> AsyncIterator[Trial]:
    config = replace(config, limits=LIMITS)
    async with gitops_rig(directory / "data", config) as rig:
        made = Trial(rig, WorkTree(directory / "repos" / "jobs.git"), url)
        made.commit()
        await made.follow(**settings)
        yield made


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]


STATUSES = {
    401: "it wants a login (status 401): name a credential",
    403: "access is refused (status 403): a reader without a credential has no right",
    404: "there is no repository at this URL, or a reader without a credential may not see it",
    429: "it asks for fewer requests (status 429)",
    418: "it refuses the request (status 418)",
    500: "has an internal error or is overloaded (status 500)",
    503: "has an internal error or is overloaded (status 503)",
}


async def break_http(server: GitHttpServer, made: Trial) -> None:
    """Every fault of an HTTP server in turn."""
    for status, text in STATUSES.items():
        server.status = status
        await made.expect(text)
        server.mend()
    server.redirect = "http://127.0.0.1:1"
    await made.expect("it redirects to another address (status 301), and redirects are not")
    server.mend()
    server.page = LOGIN_PAGE
    await made.expect("it answers with text/html, not with git's protocol")
    server.mend()
    server.empty = True
    await made.expect("it has no refs yet")
    server.mend()
    server.silent = True
    await made.expect("it sent nothing for 5 s, the limit silence_timeout")
    server.mend()
    for cut in (1, 100_000):
        server.cut_after = cut
        await made.expect("the answer was cut off before its end")
        server.mend()
    with_ref = made.rig.source()
    await made.rig.add_source("demo", **{**settings_of(with_ref), "ref": "gone"})
    await made.expect("cannot find ref 'gone'; branches there: main")
    await made.rig.add_source("demo", **settings_of(with_ref))
    server.login = ("ada", "right")
    await made.expect("it wants a login (status 401)")
    server.mend()
    await made.expect_recovery()


def settings_of(source: object) -> dict[str, object]:
    names = ("kind", "url", "ref", "poll_interval_ns", "credential", "ca_certificates")
    return {name: getattr(source, name) for name in names}


def test_each_fault_of_an_http_server_is_a_sentence_and_no_job_changes(tmp_path: Path) -> None:
    async def body() -> None:
        server = GitHttpServer(tmp_path / "repos")
        async with server.running():
            config = GitopsConfig()
            async with trial(tmp_path, server.url("jobs.git"), config) as made:
                await break_http(server, made)
                assert made.deletions == 1  # that of the last commit, at last

    run(body)


def test_refused_connection_and_unknown_name_are_sentences(tmp_path: Path) -> None:
    async def body() -> None:
        server = GitHttpServer(tmp_path / "repos")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(server.running())
            made = await stack.enter_async_context(
                trial(tmp_path, server.url("jobs.git"), GitopsConfig())
            )
            known = settings_of(made.rig.source())
            for url, text in {
                "http://127.0.0.1:1/x.git": "127.0.0.1 port 1 refuses connections",
                "http://nowhere.invalid/x.git": "the host name nowhere.invalid cannot be resolved",
                "git://127.0.0.1:1/x.git": "refuses connections",
                "git://nowhere.invalid/x.git": "the host name nowhere.invalid cannot be resolved",
                f"file://{tmp_path}/none.git": "there is no git repository at",
            }.items():
                await made.rig.add_source("demo", **{**known, "url": url})
                await made.expect(text)
            await made.rig.add_source("demo", **known)
            await made.expect_recovery()

    run(body)


def test_each_fault_of_an_https_server_is_a_sentence_and_no_job_changes(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    good = authority.issue(tmp_path / "good", "127.0.0.1")
    expired = authority.issue(tmp_path / "expired", "127.0.0.1", hours=-1)
    foreign = other.issue(tmp_path / "foreign", "127.0.0.1")
    elsewhere = authority.issue(tmp_path / "elsewhere", "127.0.0.2")

    async def body() -> None:
        server = GitHttpServer(tmp_path / "repos", server_context(good.cert, good.key))
        pem = authority.file.read_text()
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(AsyncExitStack())
            await running.enter_async_context(server.running())
            made = await stack.enter_async_context(
                trial(tmp_path, server.url("jobs.git"), GitopsConfig(), ca_certificates=pem)
            )
            await break_http(server, made)
            made.commit()
            known = settings_of(made.rig.source())
            await made.rig.add_source("demo", **{**known, "ca_certificates": ""})
            await made.expect("its certificate is refused: unable to get local issuer certificate")
            await made.rig.add_source("demo", **known)
            for files, text in (
                (expired, "its certificate is refused: certificate has expired"),
                (foreign, "is not signed by an authority that this server trusts"),
                (elsewhere, "its certificate is not for 127.0.0.1"),
            ):
                await running.aclose()
                server.tls = server_context(files.cert, files.key)
                await running.enter_async_context(server.running())
                await made.expect(text)
            await running.aclose()
            server.tls = server_context(good.cert, good.key, authority.file)
            await running.enter_async_context(server.running())
            await made.expect("does it want a client certificate")
            await running.aclose()
            server.tls = server_context(good.cert, good.key)
            await running.enter_async_context(server.running())
            await made.expect_recovery()

    run(body)


def test_login_client_certificate_and_authority_of_a_credential_are_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    files = authority.issue(tmp_path / "cert", "127.0.0.1")

    async def body() -> None:
        tls = server_context(files.cert, files.key, authority.file)
        server = GitHttpServer(tmp_path / "repos", tls)
        server.login = ("ada", "right")
        async with server.running():
            right = GitCredential(
                server.origin,
                "ada",
                "right",
                sources=["demo"],
                ca_file=str(authority.file),
                client_cert_file=str(files.cert),
                client_key_file=str(files.key),
            )
            wrong = replace(right, password="wr0ng", ca_file="", ca_pem=authority.file.read_text())
            config = GitopsConfig(credentials={"right": right, "wrong": wrong})
            url = server.url("jobs.git")
            async with trial(tmp_path, url, config, credential="right") as made:
                known = settings_of(made.rig.source())
                await made.rig.add_source("demo", **{**known, "credential": "wrong"})
                await made.expect("it refuses the user or password of the source's credential")
                assert "wr0ng" not in made.error
                await made.rig.add_source("demo", **known)
                await made.expect_recovery()
            assert all("right" not in str(each.target) for each in server.seen)

    run(body)


def test_redirect_gets_no_login_even_to_another_port_of_the_host(tmp_path: Path) -> None:
    async def body() -> None:
        server, thief = GitHttpServer(tmp_path / "repos"), GitHttpServer(tmp_path / "repos")
        async with server.running(), thief.running():
            server.login = ("ada", "right")
            key = GitCredential(server.origin, "ada", "right", sources=["demo"])
            config = GitopsConfig(credentials={"key": key})
            url = server.url("jobs.git")
            async with trial(tmp_path, url, config, credential="key") as made:
                server.redirect = thief.origin
                await made.expect("it redirects to another address")
                known = settings_of(made.rig.source())
                await made.rig.add_source("demo", **{**known, "url": thief.url("jobs.git")})
                await made.expect(f"it belongs to {server.origin}")
                assert thief.seen == []

    run(body)


def test_proxy_of_the_configuration_is_used_and_none_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def body() -> None:
        server, proxy = GitHttpServer(tmp_path / "repos"), HttpProxy()
        async with server.running(), proxy.running():
            url = server.url("jobs.git")
            async with trial(tmp_path / "direct", url, GitopsConfig()) as made:
                del made
            assert proxy.asked == []
            given = TransportConfig(proxy=proxy.url)
            async with trial(tmp_path, url, GitopsConfig(transport=given)) as made:
                assert proxy.asked[0].startswith("GET http://127.0.0.1:")
                proxy.refuses = True
                await made.expect("(status 403)")
                proxy.refuses = False
                await made.expect_recovery()
            count = len(proxy.asked)
            exempt = TransportConfig(proxy=proxy.url, no_proxy=("127.0.0.1",))
            async with trial(tmp_path / "exempt", url, GitopsConfig(transport=exempt)) as made:
                del made
            assert len(proxy.asked) == count
        gone = TransportConfig(proxy="http://user:hidden@127.0.0.1:1")
        async with gitops_rig(tmp_path / "gone", GitopsConfig(transport=gone)) as rig:
            await rig.add_source("demo", kind="remote", url="https://example.org/x.git")
            await rig.gitops.sync("demo")
            error = rig.source().status.last_error
            assert "the proxy http://127.0.0.1:1 refuses connections" in error
            assert "hidden" not in error

    (tmp_path / "direct").mkdir()
    (tmp_path / "exempt").mkdir()
    for name in ("direct", "exempt"):
        (tmp_path / name / "repos").symlink_to(tmp_path / "repos")
    (tmp_path / "repos").mkdir()
    run(body)


async def break_link(link: Link, made: Trial, ended: str) -> None:
    """Every fault of a TCP connection in turn."""
    link.cut()
    await made.expect(ended)
    link.mend()
    link.back.set(Faults(blocked=True))
    await made.expect("within 10 s, the limit list_timeout")
    link.back.set(CLEAN)
    link.back.set(Faults(cut_after_bytes=100_000))
    await made.expect("the answer was cut off before its end")
    link.mend()


def test_each_fault_of_git_daemon_is_a_sentence_and_no_job_changes(tmp_path: Path) -> None:
    async def body() -> None:
        (tmp_path / "repos").mkdir()
        async with git_daemon(tmp_path / "repos") as port, faulty_link(port) as (link, linked):
            url = f"git://127.0.0.1:{linked}/jobs.git"
            async with trial(tmp_path, url, GitopsConfig()) as made:
                await break_link(link, made, "ended the connection")
                known = settings_of(made.rig.source())
                missing = f"git://127.0.0.1:{linked}/none.git"
                await made.rig.add_source("demo", **{**known, "url": missing})
                await made.expect("there is no git repository at /none.git")
                await made.rig.add_source("demo", **{**known, "credential": "key"})
                await made.expect("its config has no credential")
                await made.rig.add_source("demo", **known)
                await made.expect_recovery()

    run(body)


@needs_sshd
def test_each_fault_of_sshd_is_a_sentence_and_no_job_changes(tmp_path: Path) -> None:
    async def body() -> None:
        repository = tmp_path / "repos" / "jobs.git"
        async with ssh_server(tmp_path / "ssh") as server, faulty_link(server.port) as (link, port):
            key = GitCredential(
                f"ssh://127.0.0.1:{port}",
                ssh_key_file=str(server.user_key),
                ssh_known_hosts=server.known_hosts_at(port),
                sources=["demo"],
            )
            changed = server.known_hosts_at(port).replace(
                server.host_key, " ".join(Path(f"{server.user_key}.pub").read_text().split()[:2])
            )
            keys = {
                "key": key,
                "changed": replace(key, ssh_known_hosts=changed),
                "unknown": replace(key, ssh_known_hosts="", ssh_known_hosts_file="/dev/null"),
                "foreign": replace(key, ssh_key_file=str(server.user_key.with_name("host"))),
                "elsewhere": replace(key, origin="ssh://127.0.0.1"),
            }
            url = server.url(repository, port)
            config = GitopsConfig(credentials=keys)
            async with trial(tmp_path, url, config, credential="key") as made:
                await break_link(link, made, "ended the connection")
                known = settings_of(made.rig.source())
                for credential, text in {
                    "changed": "the host key of 127.0.0.1 is not the one among the known hosts",
                    "unknown": "the host key of 127.0.0.1 is not among the known hosts",
                    "foreign": "the host refuses the credential",
                    "elsewhere": "it belongs to ssh://127.0.0.1;",
                }.items():
                    await made.rig.add_source("demo", **{**known, "credential": credential})
                    await made.expect(text)
                missing = server.url(tmp_path / "none", port)
                await made.rig.add_source("demo", **{**known, "url": missing})
                await made.expect("there is no git repository at")
                await made.rig.add_source("demo", **known)
                await made.expect_recovery()

    run(body)


def test_fetch_above_the_limit_names_it(tmp_path: Path) -> None:
    async def body() -> None:
        limits = GitLimits(max_fetch_bytes=1_000_000)
        server = GitHttpServer(tmp_path / "repos")
        work = WorkTree(tmp_path / "repos" / "jobs.git")
        work.commit({"web.hcl": batch_job("web"), "huge.bin": os.urandom(3_000_000)})
        async with (
            server.running(),
            gitops_rig(tmp_path / "data", GitopsConfig(limits=limits)) as rig,
        ):
            await rig.add_source("demo", kind="remote", url=server.url("jobs.git"))
            await rig.gitops.sync("demo")
            error = rig.source().status.last_error
            assert "larger than the limit max_fetch_bytes, 1000000" in error
            assert rig.job("web") is None

    run(body)
