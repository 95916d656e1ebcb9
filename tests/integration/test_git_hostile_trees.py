"""Hostile trees and commits: each is refused naming the file, in the push and in the status."""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchgit.errors import OrchgitError
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import CountingParser, GitopsRig, gitops_rig

BAD_NAME = b"file\xff.hcl"


def write_named(work: WorkTree, name: bytes, text: str) -> None:
    path = os.fsencode(work.path) + b"/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def raw_commit(work: WorkTree, head: bytes, message: bytes) -> str:
    """A commit of the work tree's index whose header lines and message are these bytes."""
    tree = work.git("write-tree")
    content = b"tree " + tree.encode() + b"\n" + head + b"\n\n" + message
    done = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        cwd=work.path,
        input=content,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def last_check_ns(rig: GitopsRig) -> int:
    with rig.context.snapshot() as snapshot:
        return rig.gitops.statuses.report(snapshot, rig.source("polled")).check.last_check_ns


async def polled(rig: GitopsRig, work: WorkTree) -> str:
    """Follow the work tree as a remote source; the error in its status after one round."""
    await rig.add_source("polled", kind="local", url=str(work.path))
    await rig.gitops.sync("polled")
    return rig.source("polled").status.last_error


def hostile_files(work: WorkTree, case: str) -> str:
    """Write the case's files; what the refusal has to say."""
    if case == "name":
        write_named(work, BAD_NAME, batch_job("web"))
        return r"file\xff.hcl:1:1: cannot read a file whose path is not UTF-8"
    if case == "directory":
        write_named(work, b"d\xfe/web.hcl", batch_job("web"))
        return r"d\xfe/web.hcl:1:1: cannot read a file whose path is not UTF-8"
    listing = {
        "fileset": 'join(",", fileset("..", "**"))',
        "fileset-nul": 'join(",", fileset(".", "a\\u0000b"))',
        "file": 'file("../../x")',
    }[case]
    write_named(work, b"note\xff", "not a job file")
    work.write({"d/web.hcl": batch_job("web", extra=f"  meta {{\n    all = {listing}\n  }}\n")})
    return "" if case == "fileset" else "d/web.hcl:14:"


@pytest.mark.parametrize("case", ["name", "directory", "fileset", "fileset-nul", "file"])
def test_hostile_tree_is_refused_by_file_in_push_and_status(tmp_path: Path, case: str) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            expected = hostile_files(work, case)
            work.commit({})
            answer = await work.push(rig.url("demo"))
            assert "HTTP 500" not in answer.output
            assert (answer.returncode == 0) == (expected == ""), answer.output
            assert expected in answer.output
            error = await polled(rig, work)
            assert expected in error
            if expected:
                assert rig.source("polled").status.last_checked_ns > 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "head",
    [
        b"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding nonsense",
        b"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding zlib",
        b"author A\xff <a\xfe@b> 1 +0000\ncommitter A <a@b> 1 +0000",
        b"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding \xff",
    ],
    ids=[
        "unknown-encoding",
        "no-text-encoding",
        "bytes-that-are-no-utf-8",
        "encoding-that-is-no-text",
    ],
)
def test_commit_text_in_any_encoding_is_applied_readably(tmp_path: Path, head: bytes) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            work.write({"web.hcl": batch_job("web")})
            work.git("add", "--all")
            commit = raw_commit(work, head, b"Say \xff hello\n")
            answer = await work.push(rig.url("demo"), ref=f"{commit}:refs/heads/main")
            assert answer.returncode == 0, answer.output
            (rollout,) = rig.rollouts()
            assert rollout.commit.subject == "Say \N{REPLACEMENT CHARACTER} hello"

    asyncio.run(run())


def test_latin_1_commit_message_is_decoded_by_its_encoding_header(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            work.write({"web.hcl": batch_job("web")})
            work.git("add", "--all")
            head = b"author Ren\xe9 <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding ISO-8859-1"
            commit = raw_commit(work, head, b"Caf\xe9\n")
            await work.push(rig.url("demo"), ref=f"{commit}:refs/heads/main")
            (rollout,) = rig.rollouts()
            assert (rollout.commit.author, rollout.commit.subject) == ("René", "Café")

    asyncio.run(run())


def test_other_file_in_the_tree_may_have_any_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            write_named(work, b"picture\xff.png", "x")
            work.commit({"web.hcl": batch_job("web")})
            answer = await work.push(rig.url("demo"))
            assert answer.returncode == 0, answer.output

    asyncio.run(run())


class BrokenParser(CountingParser):
    """A parser with a fault: it breaks at one file."""

    def parse(self, file: JobFile, inputs: Inputs) -> ParsedFile:
        if file.path == "b.hcl":
            raise RecursionError("too deep")
        return super().parse(file, inputs)


def test_internal_error_of_the_parser_names_the_file_in_push_and_status(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data", parser=BrokenParser()) as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            work.commit({name: batch_job(name[0]) for name in ("a.hcl", "b.hcl", "c.hcl")})
            expected = "b.hcl:1:1: internal error of the parser (RecursionError: too deep)"
            answer = await work.push(rig.url("demo"))
            assert answer.returncode != 0
            assert expected in answer.output
            assert "1 problem, nothing was changed" in answer.output
            assert expected in await polled(rig, work)

    asyncio.run(run())


class BrokenPool(CountingParser):
    """Breaks outside of any file, as a bug in the reconciler would."""

    def parse_many(
        self, files: Sequence[JobFile], inputs: Inputs
    ) -> Sequence[ParsedFile | OrchgitError]:
        raise ZeroDivisionError("a bug")


def test_internal_error_of_a_round_is_reported_and_the_loop_continues(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data", parser=BrokenPool()) as rig:
            await rig.add_source()
            work = WorkTree(tmp_path / "work")
            work.commit({"a.hcl": batch_job("a")})
            answer = await work.push(rig.url("demo"))
            assert answer.returncode != 0
            assert "cannot finish the push: internal error (ZeroDivisionError: a bug)" in (
                answer.output
            )
            error = await polled(rig, work)
            assert "internal error (ZeroDivisionError: a bug)" in error
            await rig.gitops.sync("polled")

    asyncio.run(run())


@pytest.mark.parametrize("broken", [False, True])
def test_each_check_updates_last_check_though_it_failed(tmp_path: Path, broken: bool) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            work = WorkTree(tmp_path / "work")
            work.commit({"a.hcl": batch_job("a", extra="}" if broken else "")})
            assert bool(await polled(rig, work)) == broken
            await rig.until(lambda: all(each.is_terminal for each in rig.rollouts("polled")))
            first_ns = last_check_ns(rig)
            index = rig.state.store.watch.applied_index
            await rig.gitops.sync("polled")
            assert last_check_ns(rig) > first_ns > 0
            if not broken:
                assert rig.state.store.watch.applied_index == index

    asyncio.run(run())
