"""What was fetched is moved into a task's directory, whatever file system that is on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.artifacts.install import Owner, install_file, install_tree
from agent.artifacts.plan import FetchError
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """A tree with a program, a link to it and a directory."""
    tree = tmp_path / "fetched"
    (tree / "deep").mkdir(parents=True)
    (tree / "tool").write_text("new")
    (tree / "tool").chmod(0o755)
    (tree / "link").symlink_to("tool")
    (tree / "deep" / "data").write_bytes(bytes(100_000))
    return tree


def test_tree_is_moved_into_another_file_system(fetched: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "memory", 1) as disk:
        target = disk.directory
        (target / "tool").write_text("old")
        (target / ".orchgit-copy").write_text("of an agent that was killed")
        _install(fetched, target, Owner((65534, 65534)))
        assert (target / "tool").read_text() == "new"
        assert (target / "link").readlink() == Path("tool")
        assert (target / "deep" / "data").stat().st_size == 100_000
        found = (target / "tool").stat()
        assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o755, 65534, 65534)
        assert (target / "link").lstat().st_uid == 65534
        assert sorted(os.listdir(target)) == ["deep", "link", "tool"]


def test_file_never_replaces_a_directory_of_another_file_system(
    fetched: Path, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "memory", 1) as disk:
        (disk.directory / "tool").mkdir()
        source, target = (os.open(each, os.O_RDONLY) for each in (fetched, disk.directory))
        try:
            with pytest.raises(FetchError, match='"tool" is a directory in the destination'):
                install_file(source, "tool", target, "tool", Owner(None))
        finally:
            os.close(source)
            os.close(target)
        assert os.listdir(disk.directory) == ["tool"]


def _install(tree: Path, target: Path, owner: Owner) -> None:
    source_fd, target_fd = (os.open(each, os.O_RDONLY) for each in (tree, target))
    try:
        install_tree(source_fd, target_fd, owner)
    finally:
        os.close(source_fd)
        os.close(target_fd)
