"""The order of a commit's jobs: stages, hooks, and what happens when one of them fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.conftest import Repository
from tests.support.dev_server import ApiUser
from tests.support.job_texts import batch, sleeper


class Names:
    """The names of one test's jobs, on a server that tests share."""

    def __init__(self, repository: Repository) -> None:
        self.db, self.migrate, self.web = (
            f"{repository.name}-{each}" for each in ("db", "migrate", "web")
        )


def write_stack(repository: Repository, migration: str = "true", version: str = "1") -> Names:
    """db, then the hook migrate, then web."""
    names = Names(repository)
    repository.write(
        "orchgit.hcl",
        f"""
hook "migrate" {{
  stage = "pre"
  job   = "{names.migrate}"
}}
job "{names.migrate}" {{
  depends_on = ["{names.db}"]
}}
""",
    )
    repository.write("db.nomad.hcl", sleeper(names.db, version=version))
    repository.write("migrate.nomad.hcl", batch(names.migrate, migration))
    repository.write("web.nomad.hcl", sleeper(names.web, version=version))
    return names


def rollout_of(server: ApiUser, commit: str) -> dict[str, Any]:
    return dict(server.get(f"/v1/gitops/rollout/{commit}"))


def jobs_of(rollout: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {job["JobID"].rsplit("-", 1)[1]: job for job in rollout["Jobs"]}


def modify_indexes(server: ApiUser, *names: str) -> list[int]:
    return [server.get(f"/v1/job/{name}")["CreateIndex"] for name in names]


def test_stages_are_applied_one_after_the_other_in_one_rollout(repository: Repository) -> None:
    names = write_stack(repository)
    shown = repository.server.cli("diff", cwd=repository.path).text
    assert f"stage 2, after {names.db} (healthy)" in shown
    commit = repository.commit("All")
    seen = repository.push()
    assert f"+ {names.migrate}: place 1 (stage 2, after {names.db} (healthy))" in seen
    assert f". {names.web}: waits for {names.migrate} (complete)" in seen
    assert "Healthy after" in seen
    order = modify_indexes(repository.server, names.db, names.migrate, names.web)
    assert order == sorted(set(order))
    table = repository.server.cli("rollout", "status", commit).text
    assert "Stage" in table
    rollout = rollout_of(repository.server, commit)
    assert [job["Stage"] for job in jobs_of(rollout).values()] == [0, 1, 2]
    assert {job["Status"] for job in rollout["Jobs"]} == {"healthy"}
    origins = {
        repository.server.get(f"/v1/job/{n}")["Origin"]["RolloutID"] for n in vars(names).values()
    }
    assert origins == {rollout["ID"]}


def test_failed_hook_fails_the_rollout_and_the_next_commit_goes_on(repository: Repository) -> None:
    names = write_stack(repository, migration="echo no such table >&2; exit 3")
    commit = repository.commit("Broken migration")
    seen = repository.push()
    assert "Failed after" in seen
    assert "no such table" in seen
    assert f"!! {names.web}: not applied: {names.migrate} failed" in seen
    rollout = rollout_of(repository.server, commit)
    assert {name: job["Status"] for name, job in jobs_of(rollout).items()} == {
        "db": "healthy",
        "migrate": "failed",
        "web": "skipped",
    }
    assert f"not applied: {names.web}" in rollout["StatusDescription"]
    repository.write("migrate.nomad.hcl", batch(names.migrate, "exit 0"))
    repaired = repository.commit("Repaired migration")
    assert "Healthy after" in repository.push()
    assert set(jobs_of(rollout_of(repository.server, repaired))) == {"migrate", "web"}
    assert repository.server.running_allocations(names.web)


def test_newer_commit_supersedes_the_stages_that_wait(repository: Repository) -> None:
    names = write_stack(repository, migration="exec sleep 1000000")
    waiting = repository.commit("Endless migration")
    repository.push("-o", "detach")
    repository.server.wait_for(
        f"/v1/gitops/rollout/{waiting}", lambda r: jobs_of(r)["migrate"]["Status"] == "progressing"
    )
    assert jobs_of(rollout_of(repository.server, waiting))["web"]["Status"] == "waiting"
    repository.write("migrate.nomad.hcl", batch(names.migrate))
    newer = repository.commit("Quick migration")
    assert "Healthy after" in repository.push()
    assert set(jobs_of(rollout_of(repository.server, newer))) == {"migrate", "web"}
    old = repository.server.wait_for(
        f"/v1/gitops/rollout/{waiting}", lambda r: r["FinishedTime"] > 0
    )
    assert old["Status"] == "superseded"
    assert jobs_of(old)["web"]["Status"] == "superseded"


def test_rerun_of_a_failed_hook_goes_on_with_what_waited_for_it(
    repository: Repository, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    names = write_stack(repository, migration=f"test -e {table}")
    commit = repository.commit("Needs a table")
    assert "Failed after" in repository.push()
    table.touch()
    done = repository.server.cli("source", "sync", repository.name, "-rerun", names.migrate)
    assert done.code == 0, done.text
    rollout = repository.server.wait_for(
        f"/v1/gitops/rollout/{newest_rollout(repository)}", lambda found: found["FinishedTime"] > 0
    )
    assert rollout["Commit"]["ID"] == commit
    assert {name: job["Status"] for name, job in jobs_of(rollout).items()} == {
        "migrate": "healthy",
        "web": "healthy",
    }
    assert repository.server.running_allocations(names.web)


def newest_rollout(repository: Repository) -> str:
    found = repository.server.get("/v1/gitops/rollouts", source=repository.name)
    return str(found[0]["ID"])


def test_hook_of_each_commit_runs_again_and_deletions_come_last(repository: Repository) -> None:
    names = Names(repository)
    smoke, old = f"{repository.name}-smoke", f"{repository.name}-old"
    repository.write(
        "orchgit.hcl",
        f'hook "smoke" {{\n  stage = "post"\n  job = "{smoke}"\n  run = "each_commit"\n}}\n',
    )
    repository.write("smoke.nomad.hcl", batch(smoke))
    repository.write("old.nomad.hcl", sleeper(old))
    repository.write("web.nomad.hcl", sleeper(names.web))
    repository.commit("One")
    assert "Healthy after" in repository.push()
    (repository.path / "old.nomad.hcl").unlink()
    repository.write("web.nomad.hcl", sleeper(names.web, version="2"))
    commit = repository.commit("Two")
    seen = repository.push()
    assert "Healthy after" in seen
    stages = {job["JobID"]: job["Stage"] for job in rollout_of(repository.server, commit)["Jobs"]}
    assert stages == {names.web: 0, smoke: 1, old: 2}
    meta = repository.server.get(f"/v1/job/{smoke}")["Meta"]
    assert meta["orchgit.commit"] == commit
    allocs = repository.server.get(f"/v1/job/{smoke}/allocations")
    assert sorted(alloc["ClientStatus"] for alloc in allocs) == ["complete", "complete"]
