"""Gates as a person sees them: approval on the command line, room, and a commit that goes back."""

from __future__ import annotations

from tests.e2e.conftest import Repository
from tests.support.job_texts import sleeper


def settings(repository: Repository, *options: str) -> None:
    done = repository.server.cli("source", "set", repository.name, *options)
    assert done.code == 0, done.text


def test_commit_is_applied_after_its_plan_was_approved(repository: Repository) -> None:
    settings(repository, "-approvals", "1")
    cli = repository.server.cli
    repository.write("r.nomad.hcl", sleeper(repository.name))
    diff = cli("diff", "-source", repository.name, cwd=repository.path)
    assert "would wait for: 0 of 1 approvals" in diff.text
    commit = repository.commit("Needs an approval")
    said = repository.push("-o", "detach")
    assert ".. approval: 0 of 1 approvals" in said
    assert "orchgit rollout approve" in said
    shown = cli("rollout", "status", commit[:12])
    assert "awaiting_approval" in shown.out
    assert "closed: 0 of 1 approvals" in shown.out
    listed = repository.server.cli_json("source", "status", repository.name)
    assert listed["Status"]["AppliedCommit"] == ""

    wrong = cli("rollout", "approve", commit[:12], "-plan-hash", "0" * 64, "-by", "bob")
    assert (wrong.code, "its plan is" in wrong.err) == (1, True), wrong.text
    done = cli("rollout", "approve", commit[:12], "-yes", "-by", "bob")
    assert (done.code, "1 of 1 approvals" in done.out) == (0, True), done.text
    watched = cli("rollout", "watch", commit)
    assert watched.code == 0, watched.text
    assert "open: 1 of 1 approvals (bob)" in cli("rollout", "status", commit[:12]).out


def test_commit_that_waits_is_rejected_or_passes_its_window(repository: Repository) -> None:
    never = "deny * * * * * 2h"
    settings(repository, "-window", never)
    cli = repository.server.cli
    repository.write("r.nomad.hcl", sleeper(repository.name))
    commit = repository.commit("Outside every window")
    said = repository.push()
    assert "which does not open within 400 days" in said
    assert "pending" in cli("rollout", "list", "-source", repository.name).out
    rejected = cli("rollout", "reject", commit[:12], "-reason", "not today", "-by", "bob")
    assert rejected.code == 0, rejected.text
    assert cli("rollout", "watch", commit).code == 1
    repository.write("r.nomad.hcl", sleeper(repository.name, version="2"))
    second = repository.commit("Again")
    repository.push("-o", "detach")
    synced = cli("source", "sync", repository.name, "-override-window", "the shop is down")
    assert synced.code == 0, synced.text
    assert cli("rollout", "watch", second).code == 0
    shown = cli("rollout", "status", second[:12]).out
    assert "overridden by" in shown
    assert "the shop is down" in shown


def test_commit_without_room_is_refused_where_it_has_to_fit(repository: Repository) -> None:
    settings(repository, "-require-fit")
    wide = sleeper(repository.name).replace("memory = 16", "memory = 99000000")
    assert "99000000" in wide
    repository.write("r.nomad.hcl", wide)
    repository.commit("Too big")
    said = repository.refused_push()
    assert "does not fit" in said
    assert "memory exhausted" in said
    repository.write("r.nomad.hcl", sleeper(repository.name))
    repository.commit("Small")
    assert "Healthy after" in repository.push()


def test_commit_of_two_jobs_goes_back_whole_when_one_of_them_fails(repository: Repository) -> None:
    settings(repository, "-health-gate", "revert")
    good, bad = f"{repository.name}-good", f"{repository.name}-bad"
    repository.write("good.nomad.hcl", sleeper(good))
    repository.write("bad.nomad.hcl", sleeper(bad))
    first = repository.commit("Both run")
    repository.push()
    repository.write("good.nomad.hcl", sleeper(good, version="2"))
    repository.write("bad.nomad.hcl", sleeper(bad, version="2", command="exit 7", is_bad=True))
    second = repository.commit("One fails")
    said = repository.push()
    assert f"The whole commit goes back to {first[:8]}" in said or "Reverted after" in said
    server = repository.server
    rollout = server.wait_for(
        f"/v1/gitops/rollout/{second}", lambda answer: answer["Gates"]["HealthOutcome"] != ""
    )
    assert rollout["Status"] == "reverted"
    assert f"went back to commit {first[:8]}" in rollout["StatusDescription"]
    [revert] = [
        each for each in server.get("/v1/gitops/rollouts") if each["Reverts"] == rollout["ID"]
    ]
    assert {job["JobID"] for job in revert["Jobs"]} == {good, bad}
    server.wait_for(f"/v1/gitops/rollout/{revert['ID']}", lambda each: each["Status"] == "healthy")
