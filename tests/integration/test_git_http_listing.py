"""Refs that the server lists over HTTP by itself: the same as git lists, and none when in doubt."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.clock import FakeClock, SystemClock
from orchgit.gitops.git.http_listing import HttpListings, refs_in
from orchgit.gitops.git.remotes import Remote
from orchgit.gitops.git.urls import parse_url
from tests.support.certificates import Authority
from tests.support.git_repos import WorkTree, batch_job
from tests.support.git_servers import GitHttpServer, server_context


def repository(directory: Path) -> WorkTree:
    """A repository with a branch, a light and an annotated tag."""
    work = WorkTree(directory / "jobs.git")
    work.commit({"web.nomad": batch_job("web")})
    work.git("tag", "v1")
    work.git("tag", "-a", "-m", "two", "v2")
    work.git("branch", "other")
    return work


def listed_by_git(work: WorkTree) -> bytes:
    done = subprocess.run(
        ["git", "ls-remote", "--quiet", str(work.path)], capture_output=True, check=True
    )
    return done.stdout


def test_listing_is_what_git_lists_on_one_connection_with_the_login_and_no_more(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "ca")
    files = authority.issue(tmp_path / "cert", "127.0.0.1")

    async def run() -> None:
        work = repository(tmp_path / "repos")
        server = GitHttpServer(tmp_path / "repos", server_context(files.cert, files.key))
        async with server.running():
            listings = HttpListings(SystemClock(), 5.0)
            remote = Remote(parse_url(server.url("jobs.git/.git")), ca_file=str(authority.file))
            found = [await listings.list(remote) for _ in range(3)]
            await listings.close()
        assert found == [listed_by_git(work)] * 3
        assert [each.method for each in server.seen] == ["GET"] * 3
        assert server.connections == 1

    asyncio.run(run())


def test_whatever_is_not_as_usual_is_left_to_git(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    files = authority.issue(tmp_path / "cert", "127.0.0.1")

    async def run() -> None:
        repository(tmp_path / "repos")
        server = GitHttpServer(tmp_path / "repos", server_context(files.cert, files.key))
        async with server.running():
            clock = FakeClock()
            listings = HttpListings(clock, 0.5)
            url = parse_url(server.url("jobs.git/.git"))
            remote = Remote(url, ca_pem=authority.file.read_text())
            assert await listings.list(remote)
            for fault in ("status", "redirect", "page", "empty", "silent"):
                server.mend()
                setattr(server, fault, FAULTS[fault])
                assert await listings.list(remote) is None, fault
                asked = len(server.seen)
                server.mend()
                assert await listings.list(remote) is None
                assert len(server.seen) == asked
                await clock.advance(601.0)
                assert await listings.list(remote)
            asked = len(server.seen)
            untrusted = Remote(url, ca_pem=Authority(tmp_path / "other").file.read_text())
            proxied = Remote(url, ca_pem=remote.ca_pem, proxy="http://127.0.0.1:9")
            over_ssh = Remote(parse_url("ssh://git@host/jobs.git"))
            for other in (untrusted, proxied, over_ssh):
                assert await listings.list(other) is None
            assert len(server.seen) == asked
            await listings.close()

    asyncio.run(run())


FAULTS: dict[str, object] = {
    "status": 500,
    "redirect": "https://127.0.0.1:9",
    "page": b"<html>",
    "empty": True,
    "silent": True,
}
ID, OTHER = b"a" * 40, b"b" * 40


def advertisement(*lines: bytes) -> bytes:
    parts = [b"# service=git-upload-pack\n", b"", *lines, b""]
    return b"".join(b"%04x" % (len(part) + 4) + part if part else b"0000" for part in parts)


def test_advertisement_is_read_without_its_capabilities() -> None:
    text = advertisement(ID + b" HEAD\x00multi_ack side-band\n", OTHER + b" refs/heads/main\n")
    assert refs_in(text) == ID + b"\tHEAD\n" + OTHER + b"\trefs/heads/main\n"


def test_other_protocols_and_odd_lines_are_not_read() -> None:
    for line in (
        b"version 2\n",
        b"0" * 40 + b" capabilities^{}\x00x\n",
        b"ERR no such repository\n",
        ID + b" refs/heads/a b\n",
        ID + b" \n",
        b"zz" * 20 + b" refs/heads/main\n",
    ):
        assert refs_in(advertisement(line)) is None, line


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
@settings(max_examples=60, deadline=None)
def test_part_of_an_advertisement_is_not_read_and_a_changed_byte_makes_no_other_error(
    at: int, byte: int
) -> None:
    text = advertisement(ID + b" HEAD\x00caps\n", *(ID + b" refs/heads/%d\n" % n for n in range(9)))
    at %= len(text)
    assert refs_in(text[:at]) is None
    refs_in(text[:at] + bytes([byte]) + text[at + 1 :])
