"""What a server holds in memory of a repository does not grow with its pushes."""

from __future__ import annotations

import sys
from pathlib import Path

from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.repository import Repository
from orchgit.gitops.parsing.cache import FileOutcome, ParseCache
from tests.support.git_repos import WorkTree

OUTCOME = FileOutcome(None, (), ())


def test_reading_and_deleting_refs_leaves_no_memory_behind(tmp_path: Path) -> None:
    work = WorkTree(tmp_path)
    commit = work.commit({"file": "x"})
    repository = Repository(tmp_path / ".git", GitLimits())
    names = [f"refs/keep/{number}" for number in range(50)]

    def read_all() -> None:
        for name in names:
            repository.set_ref(name, commit)
        assert len(repository.refs()) == 51
        assert repository.resolve("refs/heads/" + "main") == commit
        repository.delete_refs(names)

    read_all()
    before = sys.getallocatedblocks()
    for _ in range(10):
        read_all()
    assert sys.getallocatedblocks() - before < 100
    assert list(repository.refs()) == ["refs/heads/main"]


def test_parsed_files_of_earlier_commits_are_dropped_and_those_in_use_stay() -> None:
    cache = ParseCache(min_files=10)
    stable = [f"stable-{number}" for number in range(5)]
    for key in stable:
        cache.put(key, OUTCOME)
    for number in range(100):
        cache.put(f"changed-{number}", OUTCOME)
        cache.trim([*stable, f"changed-{number}"])
        assert set(stable) <= cache.outcomes.keys()
        assert len(cache.outcomes) <= 6 + 10
    assert "changed-99" in cache.outcomes
    assert "changed-0" not in cache.outcomes


def test_parsed_files_of_a_large_commit_all_stay() -> None:
    cache = ParseCache(min_files=10)
    keys = [f"file-{number}" for number in range(100)]
    for key in keys:
        cache.put(key, OUTCOME)
    cache.trim(keys)
    assert list(cache.outcomes) == keys
