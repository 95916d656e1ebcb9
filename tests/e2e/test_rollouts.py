"""Rollouts: failure, auto-revert, revert by hand, blame, sticky volumes."""

from __future__ import annotations

import os
from typing import Any

from tests.e2e.conftest import Repository
from tests.support.dev_server import ApiUser
from tests.support.job_texts import sleeper, sticky


def finished(repository: Repository, commit: str) -> dict[str, object]:
    found = repository.server.wait_for(
        f"/v1/gitops/rollout/{commit}", lambda answer: answer["FinishedTime"] > 0
    )
    return dict(found)


def health_of(repository: Repository, status: str) -> dict[str, Any]:
    """The health of the source, as soon as it has this status and nothing of it is under way."""

    def has_settled(answer: dict[str, Any]) -> bool:
        health = answer["Health"]
        return bool(health["Status"] == status and not health["Jobs"]["Progressing"])

    found = repository.server.wait_for(f"/v1/gitops/source/{repository.name}", has_settled)
    return dict(found["Health"])


def versions_running(repository: Repository, count: int) -> list[str]:
    return sorted(
        repository.server.log(alloc["ID"], "main").split()[-1]
        for alloc in repository.server.running_allocations(repository.name, count)
    )


def test_rolling_update_replaces_every_instance(repository: Repository) -> None:
    repository.write("r.nomad.hcl", sleeper(repository.name, count=3))
    repository.commit("Three")
    repository.push()
    repository.write("r.nomad.hcl", sleeper(repository.name, count=3, version="2"))
    repository.commit("Version 2")
    assert "Healthy after" in repository.push()
    assert versions_running(repository, 3) == ["2", "2", "2"]
    [deployment, *_] = repository.server.get(f"/v1/job/{repository.name}/deployments")
    assert deployment["Status"] == "successful"


def test_unhealthy_commit_fails_and_the_last_stable_version_runs_again(
    repository: Repository,
) -> None:
    repository.write("r.nomad.hcl", sleeper(repository.name, auto_revert=True))
    repository.commit("Good")
    repository.push()
    bad = sleeper(repository.name, version="2", command="exit 7", auto_revert=True, is_bad=True)
    repository.write("r.nomad.hcl", bad)
    commit = repository.commit("Bad")
    seen = repository.push()
    assert "Failed after" in seen
    assert finished(repository, commit)["Status"] == "failed"
    assert versions_running(repository, 1) == ["1"]
    health = health_of(repository, "held")
    assert (health["Jobs"]["Healthy"], health["Jobs"]["Held"]) == (1, 1)
    assert health["Reasons"][0]["Text"].startswith(f"held since {commit[:8]}: ")


def test_unhealthy_commit_without_auto_revert_is_failed(repository: Repository) -> None:
    command = "echo no database at db.local >&2; exit 7"
    repository.write("r.nomad.hcl", sleeper(repository.name, command=command, is_bad=True))
    commit = repository.commit("Never healthy")
    seen = repository.push()
    assert "Failed after" in seen
    assert finished(repository, commit)["Status"] == "failed"
    health = health_of(repository, "degraded")
    assert health["Jobs"]["Degraded"] == 1
    assert health["Reasons"][0]["Text"].startswith("its deployment failed, ")
    assert "task main: exit code 7" in seen
    assert "| no database at db.local" in seen
    [look] = [line for line in seen.splitlines() if "look further: " in line]
    command = look.split("look further: orchgit ")[1].split()
    assert "no database at db.local" in repository.server.cli(*command).text


def test_manual_revert_runs_the_previous_commit_and_quarantines_the_bad_one(
    repository: Repository,
) -> None:
    repository.write("r.nomad.hcl", sleeper(repository.name))
    repository.commit("One")
    repository.push()
    repository.write("r.nomad.hcl", sleeper(repository.name, version="2"))
    bad = repository.commit("Two")
    repository.push()
    done = repository.server.cli("rollout", "revert", bad[:10], "-yes")
    assert done.code == 0, done.text
    assert versions_running(repository, 1) == ["1"]
    source = repository.server.get(f"/v1/gitops/source/{repository.name}")
    assert source["Status"]["Quarantined"] == [bad]


def test_allocation_deployment_and_rollout_show_commit_author_and_subject(
    repository: Repository,
) -> None:
    repository.write("r.nomad.hcl", sleeper(repository.name))
    commit = repository.commit("Explain yourself")
    repository.push()
    [alloc] = repository.server.running_allocations(repository.name)
    blame = repository.server.cli_json("blame", alloc["ID"][:8])
    assert blame["CommitID"] == commit
    assert blame["Author"] == "Ada"
    assert blame["Subject"] == "Explain yourself"
    assert blame["File"] == "r.nomad.hcl"
    assert blame["Line"] == 2
    [deployment] = repository.server.get(f"/v1/job/{repository.name}/deployments")
    assert deployment["CommitID"] == commit
    shown = repository.server.cli("deployment", "status", deployment["ID"])
    assert "Explain yourself (Ada)" in shown.out
    shown = repository.server.cli("rollout", "status", commit[:10])
    assert shown.code == 0, shown.text
    assert "Explain yourself" in shown.out
    assert "Explain yourself" in repository.server.cli("rollout", "list").out
    assert "Explain yourself" in repository.server.cli("alloc", "status", alloc["ID"]).out
    assert commit[:8] in repository.server.cli("deployment", "list").out


def test_sticky_volume_keeps_its_claim_across_updates(repository: Repository) -> None:
    made = repository.server.cli("volume", "create", "-name", f"{repository.name}-data")
    assert made.code == 0, made.text
    volume = f"{repository.name}-data"
    repository.write("s.nomad.hcl", sticky(repository.name, volume))
    first = repository.commit("Claim it")
    assert "Healthy after" in repository.push()
    repository.write("s.nomad.hcl", sticky(repository.name, volume, version="2"))
    repository.commit("Second version")
    assert "Healthy after" in repository.push()
    claims = [
        each
        for each in repository.server.get("/v1/volumes/claims")
        if each["JobID"] == repository.name
    ]
    assert [each["CommitID"] for each in claims] == [first]
    [alloc] = repository.server.running_allocations(repository.name)
    volume_node = {
        each["ID"]: each["NodeID"] for each in repository.server.get("/v1/volumes", type="host")
    }
    assert alloc["NodeID"] == volume_node[claims[0]["VolumeID"]]
    assert f"{first[:8]} Claim it (Ada)" in repository.server.cli("volume", "claims").out


def test_purge_deletes_the_claim(repository: Repository) -> None:
    volume = f"{repository.name}-data"
    assert repository.server.cli("volume", "create", "-name", volume).code == 0
    repository.write("s.nomad.hcl", sticky(repository.name, volume))
    repository.commit("Claim it")
    repository.push()
    stopped = repository.server.cli("job", "stop", "-purge", "-yes", "-detach", repository.name)
    assert stopped.code == 0, stopped.text
    repository.server.wait_for(
        "/v1/volumes/claims",
        lambda found: all(each["JobID"] != repository.name for each in found),
    )
    for pid in repository.server.task_pids(repository.name):
        os.kill(pid, 0)


def test_completed_batch_job_reruns_manually_and_not_by_an_unrelated_commit(
    repository: Repository,
) -> None:
    server, name = repository.server, repository.name
    text = sleeper(name, command="exit 0").replace(
        f'job "{name}" {{', f'job "{name}" {{\n  type = "batch"'
    )
    update = text[text.index("    update {") : text.index("    restart {")]
    repository.write("migrate.nomad.hcl", text.replace(update, ""))
    repository.commit("Migrate")
    repository.push()
    server.wait_for(f"/v1/job/{name}", lambda job: job["Status"] == "dead")
    assert server.cli("system", "gc").code == 0
    assert not is_registered(server, name)
    repository.write("README", "a note")
    repository.commit("A note")
    assert "Healthy after" in repository.push()
    assert not is_registered(server, name)
    again = server.cli("source", "sync", name, "-rerun", name)
    assert again.code == 0, again.text
    assert f"Running {name} again in rollout" in again.out
    server.wait_for(f"/v1/job/{name}", lambda job: job["Status"] == "dead")
    assert len(server.get(f"/v1/job/{name}/allocations")) == 1
    unknown = server.cli("source", "sync", name, "-rerun", "nothing")
    assert (unknown.code, "has no such job" in unknown.err) == (1, True), unknown.text


def is_registered(server: ApiUser, job_id: str) -> bool:
    return any(job["ID"] == job_id for job in server.get("/v1/jobs", prefix=job_id))


def test_source_is_degraded_while_the_task_of_a_healthy_rollout_waits_for_its_restart(
    repository: Repository,
) -> None:
    job = sleeper(repository.name, command="sleep 5; exit 7").replace(
        'attempts = 0\n      mode     = "fail"',
        'attempts = 9\n      delay    = "10m"\n      interval = "24h"\n      mode     = "delay"',
    )
    repository.write("r.nomad.hcl", job)
    commit = repository.commit("Healthy for five seconds")
    assert "Healthy after" in repository.push()
    [reason] = health_of(repository, "degraded")["Reasons"]
    assert (reason["JobID"], reason["Text"]) == (repository.name, "0/1 running, 1 restarting")
    assert finished(repository, commit)["Status"] == "healthy"
