"""`orchgit diff`: working trees, commits, ranges; exit codes as `nomad job plan` has them."""

from __future__ import annotations

import json

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
    assert "cannot find commit 'no-such-commit'" in unknown.text


def test_diff_outside_a_repository_is_refused_with_the_remedy(repository: Repository) -> None:
    elsewhere = repository.path.parent
    found = repository.server.cli("diff", cwd=elsewhere)
    assert found.code == 255
    assert "not a git repository" in found.err
    assert git(repository.path, "status").code == 0


def test_diff_fit_tells_whether_a_working_tree_fits_and_why_not(repository: Repository) -> None:
    fit = ("diff", "-fit", "-source", repository.name)
    repository.write("d.nomad.hcl", sleeper(repository.name, count=2))
    fitting = repository.server.cli(*fit, cwd=repository.path)
    assert fitting.code == 1, fitting.text
    assert "Fits: 2 of 2 new allocations find a node" in fitting.out
    assert f"+ {repository.name}: place 2" in fitting.out
    assert "memory MiB" in fitting.out
    assert max(map(len, fitting.out.splitlines())) <= 80

    huge = sleeper(f"{repository.name}-huge").replace("memory = 16", "memory = 99999999")
    repository.write("huge.nomad.hcl", huge)
    blocked = repository.server.cli(*fit, cwd=repository.path)
    assert blocked.code == 2, blocked.text
    assert "Does not fit: 1 of 3 new allocations find no node" in blocked.out
    assert "1 of 1 blocked: memory exhausted on 1 node" in blocked.out

    data = json.loads(repository.server.cli(*fit, "-json", cwd=repository.path).out)
    assert data["Fit"]["Fits"] is False
    groups = [group for job in data["Fit"]["Jobs"] for group in job["Groups"]]
    assert sorted((each["Placed"], each["Blocked"]) for each in groups) == [(0, 1), (2, 0)]
    [pool] = data["Fit"]["Capacity"]
    assert pool["FreeBefore"]["MemoryMB"] > pool["FreeAfter"]["MemoryMB"]


def test_diff_writes_a_comment_for_a_pull_request_to_a_file(repository: Repository) -> None:
    repository.write("d.nomad.hcl", sleeper(repository.name))
    comment = ("diff", "-fit", "-markdown", "-source", repository.name, "-o")
    done = repository.server.cli(*comment, "plan.md", cwd=repository.path)
    assert (done.code, done.out) == (1, ""), done.text
    text = (repository.path / "plan.md").read_text()
    assert f"### Plan for source `{repository.name}`" in text
    assert f"| create | `{repository.name}` | `place 1` |" in text
    nowhere = repository.server.cli(*comment, "no/such/plan.md", cwd=repository.path)
    assert nowhere.code == 255
    assert "cannot write no/such/plan.md" in nowhere.err


def test_diff_fit_of_a_range_is_refused(repository: Repository) -> None:
    repository.write("d.nomad.hcl", sleeper(repository.name))
    commit = repository.commit("One")
    refused = repository.server.cli("diff", "-fit", f"{commit}..{commit}", cwd=repository.path)
    assert refused.code == 255
    assert "cannot tell whether" in refused.err
