"""Listing the files of a commit: an unchanged directory is listed once, and within limits."""

import subprocess
from pathlib import Path

import pytest

from orchgit.errors import TooLargeError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.repository import EntryKind, PathFilter, Repository, TreeCache, TreeEntry
from tests.support.git_repos import WorkTree

FILES: dict[str, str | bytes | None] = {
    "a/one.hcl": "1",
    "a/readme.md": "no job",
    "b/deep/two.hcl": "2",
    "top.hcl": "3",
}


def listed(entries: list[TreeEntry]) -> list[str]:
    return [entry.path for entry in entries]


def test_entries_of_an_unchanged_directory_are_the_same_after_another_file_changed(
    tmp_path: Path,
) -> None:
    work = WorkTree(tmp_path)
    first, second = work.commit(FILES), work.commit({"a/one.hcl": "changed"})
    repository = Repository(tmp_path / ".git", GitLimits())
    before = {entry.path: entry for entry in repository.files(first, ["**/*.hcl"])}
    after = {entry.path: entry for entry in repository.files(second, ["**/*.hcl"])}
    assert list(after) == ["a/one.hcl", "b/deep/two.hcl", "top.hcl"]
    assert before["b/deep/two.hcl"] is after["b/deep/two.hcl"]
    assert before["a/one.hcl"].blob_id != after["a/one.hcl"].blob_id


def test_globs_and_exclusions_of_two_sources_do_not_mix_in_one_cache(tmp_path: Path) -> None:
    commit = WorkTree(tmp_path).commit(FILES)
    repository = Repository(tmp_path / ".git", GitLimits())
    assert listed(repository.files(commit, ["**/*.hcl"])) == [
        "a/one.hcl",
        "b/deep/two.hcl",
        "top.hcl",
    ]
    assert listed(repository.files(commit, ["**/*.hcl"], ["b/**"])) == ["a/one.hcl", "top.hcl"]
    assert listed(repository.files(commit, ["a/*"])) == ["a/one.hcl", "a/readme.md"]
    assert list(repository.tree(commit)) == [
        "a/one.hcl",
        "a/readme.md",
        "b/deep/two.hcl",
        "top.hcl",
    ]


def _made_tree(work: WorkTree, listing: str) -> str:
    done = subprocess.run(
        ["git", "mktree"], cwd=work.path, input=listing.encode(), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.mark.parametrize("leaf", ["", "100644 blob {blob}\tfile\n"])
def test_directories_that_repeat_each_other_without_end_are_refused(
    tmp_path: Path, leaf: str
) -> None:
    """Ten directories in each of thirty levels are thirty objects, and 10^30 directories."""
    work = WorkTree(tmp_path)
    work.commit({"file": "x"})
    listing = leaf.format(blob=work.git("rev-parse", "HEAD:file"))
    for _ in range(30):
        tree = _made_tree(work, listing)
        listing = "".join(f"040000 tree {tree}\td{n}\n" for n in range(10))
    commit = work.git("commit-tree", "-m", "bomb", tree)
    repository = Repository(tmp_path / ".git", GitLimits(max_tree_entries=1_000))
    with pytest.raises(TooLargeError, match="max_tree_entries"):
        repository.tree(commit)


def test_cache_drops_the_oldest_lists_beyond_some_trees_like_the_largest() -> None:
    cache = TreeCache(min_entries=6)
    entries = tuple(TreeEntry(f"f{n}", "a" * 40, EntryKind.FILE) for n in range(2))
    places = [(str(n) * 40, "", True, PathFilter(("**",))) for n in range(6)]
    for place in places:
        cache.put(place, entries)
    assert [cache.get(place) is not None for place in places] == [False, *[True] * 5]
