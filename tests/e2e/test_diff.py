"""`orchgit diff`: working trees, commits, ranges; exit codes as `nomad job plan` has them."""

from __future__ import annotations

from tests.e2e.conftest import Repository
from tests.support.dev_server import git
from tests.support.job_texts import sleeper


def test_diff_shows_changes_of_a_working_tree(repository: Repository) -> None:
    diff = ("diff", "-source", repository.name)
    repository.write("d.nomad.hcl", sleeper(repository.name))
    new = repository.server.cli(*diff, cwd=repository.path)
    assert new.code == 1, new.text
    assert "create" in new.out

    repository.commit("One")
    repository.push()
    same = repository.server.cli(*diff, cwd=repository.path)
    assert (same.code, same.err) == (0, "")

    repository.write("d.nomad.hcl", sleeper(repository.name, version="2"))
    changed = repository.server.cli("diff", cwd=repository.path)
    assert changed.code == 1, changed.text
    assert "update" in changed.out
    assert "VERSION" in changed.out
    data = repository.server.cli_json("diff", cwd=repository.path)
    assert [job["Action"] for job in data["Jobs"]] == ["update"]

    repository.write("d.nomad.hcl", 'job "x" {\n  group {}\n}\n')
    broken = repository.server.cli(*diff, cwd=repository.path)
    assert broken.code == 255
    assert "d.nomad.hcl:2:" in broken.err


def test_diff_shows_changes_between_commits(repository: Repository) -> None:
    repository.write("d.nomad.hcl", sleeper(repository.name))
    first = repository.commit("One")
    repository.push()
    repository.write("d.nomad.hcl", sleeper(repository.name, version="2"))
    second = repository.commit("Two")

    assert repository.server.cli("diff", first, cwd=repository.path).code == 0
    found = repository.server.cli("diff", second, cwd=repository.path)
    assert found.code == 1, found.text
    between = repository.server.cli("diff", f"{first}..{second}", cwd=repository.path)
    assert between.code == 1, between.text
    assert "VERSION" in between.out
    backwards = repository.server.cli("diff", f"{second}..{second}", cwd=repository.path)
    assert backwards.code == 0, backwards.text
    unknown = repository.server.cli("diff", "no-such-commit", cwd=repository.path)
    assert unknown.code == 255


def test_diff_outside_a_repository_is_refused_with_the_remedy(repository: Repository) -> None:
    elsewhere = repository.path.parent
    found = repository.server.cli("diff", cwd=elsewhere)
    assert found.code == 255
    assert "not a git repository" in found.err
    assert git(repository.path, "status").code == 0
