"""What `orchgit diff` sends: the files of a working tree or a commit, as a push would see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.job_files.working_tree import (
    committed_files,
    remote_source_name,
    top_level,
    working_files,
)
from tests.support.dev_server import git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    git(tmp_path, "init")
    (tmp_path / "a.hcl").write_text("committed")
    (tmp_path / ".gitignore").write_text("ignored\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "One")
    return tmp_path


def test_working_files_are_what_lies_on_disk(tree: Path) -> None:
    (tree / "a.hcl").write_text("changed")
    (tree / "new file.hcl").write_text("untracked")
    (tree / "ignored").write_text("not sent")
    (tree / "link").symlink_to("/etc/passwd")
    found = {each.path: each.content for each in working_files(tree)}
    assert found == {
        ".gitignore": b"ignored\n",
        "a.hcl": b"changed",
        "new file.hcl": b"untracked",
    }


def test_committed_files_are_those_of_the_commit(tree: Path) -> None:
    (tree / "a.hcl").write_text("changed")
    found = {each.path: each.content for each in committed_files(tree, "HEAD")}
    assert found["a.hcl"] == b"committed"
    with pytest.raises(ApiError, match="cannot take '--all' as a revision"):
        committed_files(tree, "--all")
    with pytest.raises(
        ApiError, match=r"cannot find commit 'no-such' in the repository .*`git fetch`"
    ):
        committed_files(tree, "no-such")


def test_source_is_told_from_the_remote(tree: Path) -> None:
    assert remote_source_name(tree) is None
    git(tree, "remote", "add", "origin", "http://127.0.0.1:4646/git/demo.git")
    assert remote_source_name(tree) == "demo"
    (tree / "sub").mkdir()
    assert top_level(tree / "sub") == tree
