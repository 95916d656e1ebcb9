"""Held versions: what failed or was reverted does not come back by itself."""

from __future__ import annotations

from typing import Any

from tests.e2e.conftest import Repository
from tests.support.dev_server import git
from tests.support.job_texts import sleeper


def version_of(repository: Repository) -> int:
    return int(repository.server.get(f"/v1/job/{repository.name}")["Version"])


def held(repository: Repository, **query: str) -> list[dict[str, Any]]:
    return list(repository.server.get(f"/v1/gitops/source/{repository.name}/held", **query))


def outputs(repository: Repository, count: int = 1) -> list[str]:
    """The version that each running allocation printed."""
    return sorted(
        repository.server.log(alloc["ID"], "main").split()[-1]
        for alloc in repository.server.running_allocations(repository.name, count)
    )


def test_failed_version_is_not_applied_again_by_unrelated_commits(repository: Repository) -> None:
    name = repository.name
    repository.write("r.nomad.hcl", sleeper(name, auto_revert=True))
    repository.commit("Good")
    repository.push()
    bad = sleeper(name, version="2", command="exit 7", auto_revert=True, is_bad=True)
    repository.write("r.nomad.hcl", bad)
    commit = repository.commit("Bad")
    repository.push()
    version = version_of(repository)
    for number in range(3):
        repository.write("README", f"{number}\n")
        repository.commit("Unrelated")
        seen = repository.push()
        assert f"! {name}: held since {commit[:8]}: failed its health check" in seen
        assert version_of(repository) == version
    assert outputs(repository) == ["1"]
    assert [each["CommitID"] for each in held(repository)] == [commit]
    assert "failed its health check" in repository.server.cli("source", "status", name).out
    repository.write("r.nomad.hcl", sleeper(name, version="3", auto_revert=True))
    repository.commit("Fixed")
    seen = repository.push()
    assert "Healthy after" in seen
    assert "changed by hand" not in seen
    assert outputs(repository) == ["3"]
    assert held(repository) == []


def test_retry_applies_a_held_version_in_a_rollout_of_its_own(repository: Repository) -> None:
    name, server = repository.name, repository.server
    gate = repository.path / "gate"
    text = sleeper(
        name,
        version="2",
        command=f"test -e {gate} || exit 7; exec sleep 1000",
        auto_revert=True,
        is_bad=True,
    )
    repository.write("r.nomad.hcl", sleeper(name, auto_revert=True))
    repository.commit("Good")
    repository.push()
    repository.write("r.nomad.hcl", text)
    bad = repository.commit("Needs a gate")
    repository.push()
    refused = server.cli("source", "retry", name, "-job", "other")
    assert refused.code == 1
    assert f"holds only versions of {name}" in refused.text
    failed = server.cli("source", "retry", name, "-job", name)
    assert failed.code == 1, failed.text
    assert [each["CommitID"] for each in held(repository)] == [bad]
    assert outputs(repository) == ["1"]
    gate.touch()
    done = server.cli("source", "retry", name, "-all")
    assert done.code == 0, done.text
    assert outputs(repository) == ["2"]
    assert held(repository) == []
    newest = server.get("/v1/gitops/rollouts?source=" + name)[0]
    assert (newest["Trigger"], [job["Cause"] for job in newest["Jobs"]]) == ("retry", ["retry"])


def test_failed_version_that_is_registered_is_tried_again_as_a_new_version(
    repository: Repository,
) -> None:
    gate = repository.path / "gate"
    command = f"test -e {gate} || exit 7; exec sleep 1000"
    soon = 'reschedule {\n      delay = "5s"\n      delay_function = "constant"\n    }'
    text = sleeper(repository.name, command=command, extra_group=soon, is_bad=True)
    repository.write("r.nomad.hcl", text)
    repository.commit("Needs a gate")
    assert "Failed after" in repository.push()
    assert held(repository) == [], "it is registered, and may become healthy yet"
    assert len(held(repository, all="true")) == 1
    repository.write("README", "unrelated")
    repository.commit("Unrelated")
    assert "= 1 unchanged" in repository.push()
    gate.touch()
    done = repository.server.cli("source", "retry", repository.name, "-job", repository.name)
    assert done.code == 0, done.text
    assert version_of(repository) == 1
    assert held(repository, all="true") == []


def test_rollback_shows_its_plan_and_gives_the_branch_a_commit_by_the_person(
    repository: Repository,
) -> None:
    name, server = repository.name, repository.server
    repository.write("r.nomad.hcl", sleeper(name))
    first = repository.commit("One")
    repository.push()
    for number in (2, 3):
        repository.write("r.nomad.hcl", sleeper(name, version=str(number)))
        repository.commit(f"Number {number}")
        repository.push()
    refused = server.cli("source", "rollback", name, first[:8], "-yes", "-patch", "x")
    assert refused.code == 1
    assert "the source is built in" in refused.text
    done = server.cli(
        *("source", "rollback", name, first[:8], "-yes", "-reason", "Three breaks the login")
    )
    assert done.code == 0, done.text
    assert "Number 3" in done.text
    assert "Number 2" in done.text
    assert outputs(repository) == ["1"]
    shown = server.cli("rollout", "list", "-source", name, "-n", "1", "-json")
    assert "Three breaks the login" in shown.text
    git(repository.path, "pull", "--ff-only", "origin", "main")
    log = git(repository.path, "log", "-1", "--format=%B").out
    assert "Three breaks the login" in log
    repository.write("README", "unrelated")
    repository.commit("Unrelated")
    assert "= 1 unchanged" in repository.push()
    assert outputs(repository) == ["1"]
