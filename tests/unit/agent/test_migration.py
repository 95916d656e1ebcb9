"""The stream of an allocation's data: what is written is what is read, and nothing leads out."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agent.migration.restore import read_snapshot
from agent.migration.snapshot import kept_directories, write_snapshot
from orchgit.errors import InvalidInputError

NAMES = kept_directories(["t"])


def snapshot_of(root: Path) -> bytes:
    out = io.BytesIO()
    write_snapshot(root, ["t"], out)
    return out.getvalue()


def entry(name: str, content: bytes = b"x", target: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for directory in ("alloc/data",) if target else ("alloc/data", name.rpartition("/")[0]):
            info = tarfile.TarInfo(directory)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        if target:
            link = tarfile.TarInfo("alloc/data/l")
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_files_owners_modes_and_links_arrive(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "alloc/data/a/b").mkdir(parents=True)
    (old / "alloc/logs").mkdir()
    (old / "alloc/logs/t.stdout.0").write_text("log")
    (old / "t/local").mkdir(parents=True)
    (old / "t/local/f").write_bytes(os.urandom(300_000))
    (old / "t/local/f").chmod(0o4711)
    (old / "t/local/l").symlink_to("/nowhere")
    os.mkfifo(old / "t/local/pipe")
    (old / "alloc/data/a").chmod(0o1700)
    if os.geteuid() == 0:
        os.chown(old / "t/local/f", 1234, 4321)
        (old / "t/local/f").chmod(0o4711)
    for name in ("t/local/f", "alloc/data/a"):
        os.utime(old / name, (1_600_000_000, 1_600_000_000))
    new.mkdir()
    assert read_snapshot(io.BytesIO(snapshot_of(old)), new, NAMES) == 300_000
    names = sorted(str(path.relative_to(new)) for path in new.rglob("*"))
    inside = ["alloc/data", "alloc/data/a", "alloc/data/a/b", "t/local/f", "t/local/l"]
    assert names == sorted([*inside, "alloc", "t", "t/local"])
    assert (new / "t/local/f").read_bytes() == (old / "t/local/f").read_bytes()
    for name in inside:
        before, after = (old / name).lstat(), (new / name).lstat()
        assert (before.st_mode, before.st_uid, before.st_gid) == (
            after.st_mode,
            after.st_uid,
            after.st_gid,
        )
    assert (new / "t/local/f").stat().st_mtime == 1_600_000_000
    assert (new / "alloc/data/a").stat().st_mtime == 1_600_000_000


def test_directory_behind_a_link_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s").write_text("s")
    (tmp_path / "old/alloc").mkdir(parents=True)
    (tmp_path / "old/alloc/data").symlink_to(tmp_path / "secret")
    (tmp_path / "old/t").symlink_to(tmp_path / "secret")
    with tarfile.open(fileobj=io.BytesIO(snapshot_of(tmp_path / "old"))) as tar:
        assert tar.getnames() == []


@pytest.mark.parametrize(
    "name", ["alloc/data/../../x", "/alloc/data/x", "t/secrets/x", "x", "alloc/data//x"]
)
def test_name_outside_of_the_data_is_refused(tmp_path: Path, name: str) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("alloc/data/fine"))
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(InvalidInputError, match="does not belong"):
        read_snapshot(io.BytesIO(out.getvalue()), tmp_path, NAMES)


def test_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    data = entry("alloc/data/l/x", target=str(tmp_path))
    stream = io.BytesIO(data)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        read_snapshot(stream, tmp_path / "new", NAMES)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("cut", [1, 600, 5000])
def test_stream_that_ends_early_is_refused(tmp_path: Path, cut: int) -> None:
    data = entry("alloc/data/sub/x", content=b"y" * 4000)
    with pytest.raises((InvalidInputError, OSError)):
        read_snapshot(io.BytesIO(data[: len(data) - 10240 + cut]), tmp_path, NAMES)


def test_file_that_shrinks_meanwhile_ends_with_zeros(tmp_path: Path) -> None:
    (tmp_path / "old/alloc/data").mkdir(parents=True)
    file = tmp_path / "old/alloc/data/f"
    file.write_bytes(b"x" * 1_000_000)
    (tmp_path / "old/alloc/data/g").write_bytes(b"next")

    class Shrinking(io.BytesIO):
        def write(self, data: Any, /) -> int:
            os.truncate(file, 300_000)
            return super().write(data)

    out = Shrinking()
    write_snapshot(tmp_path / "old", ["t"], out)
    (tmp_path / "new").mkdir()
    assert read_snapshot(io.BytesIO(out.getvalue()), tmp_path / "new", NAMES) == 1_000_004
    content = (tmp_path / "new/alloc/data/f").read_bytes()
    assert content.rstrip(b"\0") == b"x" * len(content.rstrip(b"\0"))
    assert 262_144 <= len(content.rstrip(b"\0")) < 1_000_000
    assert (tmp_path / "new/alloc/data/g").read_bytes() == b"next"
