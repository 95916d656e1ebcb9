"""Packs between servers over real gRPC: complete, interrupted, forged and too large ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from orchgit.errors import (
    InvalidInputError,
    NotFoundError,
    OrchgitError,
    SourceError,
    TimedOutError,
    TooLargeError,
)
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.mirror import Mirror, MirrorStore
from orchgit.gitops.mirrors.packs import lacking, make_pack, with_keep_alives
from orchgit.rpc.mirrors import MirrorServicer
from orchgit.wire.messages import PackFrame
from orchgit.wire.serve import GrpcServer
from tests.support.git_repos import WorkTree, batch_job
from tests.support.mirror_fetcher import fetch
from tests.support.polling import until

Frames = AsyncGenerator[PackFrame, None]
Change = Callable[[Frames], Frames]


class Home:
    """A server that has the repository. `change` comes between it and those who fetch."""

    def __init__(self, directory: Path, change: Change = lambda frames: frames) -> None:
        self.limits = GitLimits()
        self.git = GitProcess(directory, self.limits)
        self.git.prepare()
        self.mirrors = MirrorStore(directory, self.limits)
        self.change = change

    @property
    def mirror(self) -> Mirror:
        return self.mirrors.get("demo")

    def pack(self, source: str, wants: Sequence[str], haves: Sequence[str]) -> Frames:
        found = self.mirrors.existing(source)
        return self.change(with_keep_alives(make_pack(self.git, found, wants, haves)))

    async def hold(self, source: str, wants: Sequence[str], address: str) -> None:
        raise AssertionError("nobody asks")


@contextlib.asynccontextmanager
async def served(home: Home) -> AsyncIterator[str]:
    server = GrpcServer("127.0.0.1:0")
    MirrorServicer(home).register(server)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop(0)


def home_with(tmp_path: Path, change: Change = lambda frames: frames) -> tuple[Home, str]:
    """A repository of two commits and an annotated tag of the second; the tag's id."""
    home = Home(tmp_path / "home", change)
    work = WorkTree(tmp_path / "work")
    work.commit({"web.hcl": batch_job("web"), "random": os.urandom(300_000)})
    work.commit({"web.hcl": batch_job("web", text="two")})
    work.git("tag", "-a", "v1", "-m", "First")
    work.git("push", "--quiet", str(home.mirror.path), "main", "v1")
    return home, work.git("rev-parse", "v1")


def fsck(directory: Path) -> str:
    bare = WorkTree.__new__(WorkTree)
    object.__setattr__(bare, "path", directory)
    return bare.git("fsck", "--full", "--strict", "--no-dangling")


def leftovers(mirror: Path) -> list[str]:
    objects = mirror / "objects"
    return [each.name for each in (*objects.glob("tmp_*"), *objects.glob("pack/tmp_*"))]


def test_fetched_tag_brings_every_object_it_reaches(tmp_path: Path) -> None:
    home, tag = home_with(tmp_path)

    async def run() -> None:
        async with served(home) as address:
            await fetch(tmp_path / "git", address, tag)

    asyncio.run(run())
    mirror = MirrorStore(tmp_path / "git", GitLimits()).get("demo")
    assert mirror.open().has_object(tag)
    assert fsck(mirror.path) == ""
    assert leftovers(mirror.path) == []
    assert len(list((mirror.path / "objects" / "pack").glob("*.pack"))) == 1


def test_pack_holds_new_objects_only(tmp_path: Path) -> None:
    home, tag = home_with(tmp_path)
    sizes: list[int] = []

    async def counted(frames: Frames) -> Frames:
        sizes.append(0)
        async with contextlib.aclosing(frames):
            async for frame in frames:
                sizes[-1] += len(frame.data)
                yield frame

    home.change = counted
    work = WorkTree(tmp_path / "work")
    directory = tmp_path / "git"

    async def run() -> None:
        async with served(home) as address:
            await fetch(directory, address, tag)
            MirrorStore(directory, home.limits).get("demo").open().set_ref("refs/tags/v1", tag)
            new = work.commit({"web.hcl": batch_job("web", text="three")})
            work.git("push", "--quiet", str(home.mirror.path), "main")
            await fetch(directory, address, new)

    asyncio.run(run())
    assert sizes[0] > 300_000
    assert 0 < sizes[1] < 2_000


async def _cut(frames: Frames) -> Frames:
    """The server is gone in the middle."""
    async with contextlib.aclosing(frames):
        yield await anext(frames)
        frame = await anext(frames)
        yield PackFrame(data=frame.data[:20_000])
    raise SourceError("cannot go on: the disk is gone")


async def _ended_early(frames: Frames) -> Frames:
    async with contextlib.aclosing(frames):
        yield await anext(frames)
        frame = await anext(frames)
        yield PackFrame(data=frame.data[: len(frame.data) // 2])


async def _garbage(frames: Frames) -> Frames:
    await frames.aclose()
    yield PackFrame()
    yield PackFrame(data=b"PACK\0\0\0\2\0\0\0\5" + b"garbage" * 100)


async def _silent(frames: Frames) -> Frames:
    async with contextlib.aclosing(frames):
        yield await anext(frames)
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_cut, SourceError),
        (_ended_early, InvalidInputError),
        (_garbage, InvalidInputError),
        (_silent, TimedOutError),
    ],
)
def test_broken_or_forged_pack_leaves_no_object(
    tmp_path: Path, change: Change, error: type[OrchgitError]
) -> None:
    home, tag = home_with(tmp_path, change)
    # Only what is silent is to be given up: ending a git under way takes a moment too.
    limits = GitLimits(mirror_silence_s=0.5) if change is _silent else GitLimits()

    async def run() -> None:
        async with served(home) as address:
            with pytest.raises(error):
                await fetch(tmp_path / "git", address, tag, limits)
            mirror = MirrorStore(tmp_path / "git", limits).get("demo")
            assert leftovers(mirror.path) == []
            assert await lacking(home.git, mirror, [tag]) == {tag}
            home.change = lambda frames: frames
            await fetch(tmp_path / "git", address, tag)
            assert await lacking(home.git, mirror, [tag]) == set()

    asyncio.run(run())


@pytest.mark.parametrize("kept", ["all but a blob", "another commit"])
def test_pack_without_every_requested_object_is_refused(tmp_path: Path, kept: str) -> None:
    """The commit must not look as if it were here."""
    home, _ = home_with(tmp_path)
    work = WorkTree(tmp_path / "work")
    head, blob = work.head(), work.git("rev-parse", "HEAD:random")
    sent = "HEAD" if kept == "all but a blob" else "HEAD~"
    objects = work.git("rev-list", "--objects", sent).split("\n")
    ids = [line.split()[0] for line in objects if sent != "HEAD" or not line.startswith(blob)]

    async def partial(frames: Frames) -> Frames:
        await frames.aclose()
        yield PackFrame()
        packed = await home.git.check(
            [f"--git-dir={home.mirror.path}", "pack-objects", "--stdout", "-q"],
            timeout_s=10,
            stdin="".join(f"{each}\n" for each in ids).encode(),
        )
        yield PackFrame(data=packed)

    home.change = partial

    async def run() -> None:
        async with served(home) as address:
            with pytest.raises(InvalidInputError):
                await fetch(tmp_path / "git", address, head)
            mirror = MirrorStore(tmp_path / "git", home.limits).get("demo")
            assert await lacking(home.git, mirror, [head]) == {head}
            assert not mirror.open().has_commit(head)

    asyncio.run(run())


def test_pack_above_a_limit_and_bad_names_are_refused(tmp_path: Path) -> None:
    home, tag = home_with(tmp_path)

    async def run() -> None:
        async with served(home) as address:
            small = GitLimits(max_mirror_bytes=100_000)
            with pytest.raises(TooLargeError, match="max_mirror_bytes is 100000 bytes"):
                await fetch(tmp_path / "git", address, tag, small)
            with pytest.raises(NotFoundError, match="it has none"):
                await fetch(tmp_path / "git", address, "1" * 40)
            for name in ("../home/demo", "..", "a/b", "", "A", "demo.git", "-x"):
                with pytest.raises(InvalidInputError):
                    home.mirrors.existing(name)
            frames = [f async for f in home.pack("other", [tag], [])]
            assert frames == [PackFrame(missing=[tag])]
            frames = [f async for f in home.pack("demo", ["--all", tag[:10]], [])]
            assert frames == [PackFrame(missing=["--all", tag[:10]])]
        assert not (tmp_path / "home" / "other.git").exists()

    asyncio.run(run())


def test_process_killed_during_a_fetch_leaves_no_half_pack(tmp_path: Path) -> None:
    halfway = asyncio.Event()

    async def stalled(frames: Frames) -> Frames:
        async with contextlib.aclosing(frames):
            yield await anext(frames)
            frame = await anext(frames)
            yield PackFrame(data=frame.data[:150_000])
            halfway.set()
            await asyncio.Event().wait()

    home, tag = home_with(tmp_path, stalled)
    directory = tmp_path / "git"

    async def run() -> None:
        async with served(home) as address:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.mirror_fetcher"),
                *(str(directory), address, tag),
            )
            async with asyncio.timeout(30):
                await halfway.wait()
            objects = directory / "demo.git" / "objects"
            await until(lambda: list(objects.glob("tmp_*/pack/tmp_*")), 120)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            assert leftovers(directory / "demo.git")
            mirror = MirrorStore(directory, home.limits).get("demo")
            assert leftovers(mirror.path) == []
            assert fsck(mirror.path) == ""
            home.change = lambda frames: frames
            await fetch(directory, address, tag)
        assert fsck(mirror.path) == ""
        assert mirror.open().has_object(tag)

    asyncio.run(run())


def test_refs_left_empty_by_a_machine_crash_are_dropped(tmp_path: Path) -> None:
    home, tag = home_with(tmp_path)
    for name in ("refs/heads/main", "refs/orchgit/keep/x"):
        file = home.mirror.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    again = MirrorStore(tmp_path / "home", home.limits).get("demo")
    assert again.open().refs() == {"refs/tags/v1": tag}


def fast_import(count: int) -> bytes:
    """One commit of so many job files."""
    lines = [b"commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 3\nOne\n"]
    for number in range(count):
        text = batch_job(f"job-{number}").encode()
        lines.append(b"M 644 inline d%d/job-%d.hcl\n" % (number % 100, number))
        lines.append(b"data %d\n%s\n" % (len(text), text))
    return b"".join(lines)


def test_mirror_catches_up_with_ten_thousand_files_quickly(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")

    async def run() -> float:
        await home.git.check(
            [f"--git-dir={home.mirror.path}", "fast-import", "--quiet"],
            timeout_s=60,
            stdin=fast_import(10_000),
        )
        head = home.mirror.open().resolve("refs/heads/main")
        assert head is not None
        async with served(home) as address:
            began = time.monotonic()
            await fetch(tmp_path / "git", address, head)
            took = time.monotonic() - began
        mirror = MirrorStore(tmp_path / "git", home.limits).get("demo")
        assert len(mirror.open().tree(head)) == 10_000
        return took

    assert asyncio.run(run()) < 20
