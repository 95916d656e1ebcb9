"""Drift on a real server with real tasks: a change by hand is shown, warned of, healed, adopted."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from tests.e2e.conftest import Repository
from tests.support.dev_server import git
from tests.support.job_texts import sleeper


def pushed(repository: Repository, **job: Any) -> None:
    repository.write("jobs/app.nomad.hcl", sleeper(repository.name, **job))
    repository.commit("First")
    assert "Healthy after" in repository.push()


def drift_of(repository: Repository, count: int = 1) -> list[dict[str, Any]]:
    found = repository.server.wait_for(
        "/v1/gitops/drift", lambda answer: len(answer) == count, source=repository.name
    )
    return list(found)


def test_change_by_hand_is_warned_of_and_shown_at_once_with_who_and_what(
    repository: Repository,
) -> None:
    pushed(repository)
    server, name = repository.server, repository.name
    said = server.cli("job", "scale", name, "2", "-detach")
    began_s = time.monotonic()
    assert said.code == 0, said.text
    warning = " ".join(said.out.split())
    assert f'job "{name}" belongs to source "{name}" (jobs/app.nomad.hcl:2)' in warning
    assert f"`orchgit source pause {name}`" in warning
    assert f"`orchgit source release {name}`" in warning
    [found] = drift_of(repository)
    # `tests/benchmarks/gitops.py drift` measures the time; here the machine may be busy.
    assert time.monotonic() - began_s < 30.0
    assert found["Kind"] == "changed"
    assert found["ChangedVia"] == "scale"
    assert "(claimed) from 127.0.0.1" in found["ChangedBy"]
    assert found["Fields"] == [{"Path": "group.main.count", "Old": "1", "New": "2"}]
    shown = " ".join(server.cli("source", "drift", name).out.split())
    assert "changed" in shown
    assert "(job scale)" in shown
    assert "group.main.count: 1 -> 2" in shown
    assert "report" in server.cli("source", "status", name).out
    gauges = server.get("/v1/metrics")["Gauges"]
    assert [
        each["Value"]
        for each in gauges
        if each["Name"] == "orchgit.gitops.drifted_jobs" and each["Labels"]["source"] == name
    ] == [1]
    stopped = server.cli("job", "stop", name, "-yes", "-detach")
    assert "the change is shown as drift" in " ".join(stopped.out.split())
    server.wait_for("/v1/gitops/drift", lambda answer: answer[0]["Kind"] == "stopped", source=name)
    repository.write("README.md", "Another file.\n")
    repository.commit("Unrelated")
    repository.push()
    drift_of(repository, count=0)
    assert len(server.running_allocations(name, 1)) == 1


def test_events_tell_when_a_job_begins_and_ceases_to_be_drifted(repository: Repository) -> None:
    pushed(repository)
    server, name = repository.server, repository.name
    index = server.get("/v1/agent/self")["stats"]["raft"]["applied_index"]
    for count in ("2", "1"):
        assert server.cli("job", "scale", name, count, "-detach").code == 0
        drift_of(repository, count=int(count) - 1)
        server.running_allocations(name, int(count))
    seen = []
    params = {"topic": f"JobDrift:default/{name}", "index": index}
    with httpx.stream(
        "GET", f"{server.address}/v1/event/stream", params=params, timeout=30, trust_env=False
    ) as stream:
        for line in stream.iter_lines():
            events = json.loads(line).get("Events") or []
            seen += [(each["Type"], each["Payload"]["JobDrift"]["Kind"]) for each in events]
            if len(seen) == 2:
                break
    assert seen == [("JobDrifted", "changed"), ("JobDriftEnded", "changed")]


def test_healed_job_runs_again_as_its_file_says(repository: Repository) -> None:
    pushed(repository)
    server, name = repository.server, repository.name
    done = server.cli("source", "set", name, "-drift", "heal", "-drift-delay", "1s")
    assert done.code == 0, done.text
    warned = server.cli("job", "stop", name, "-purge", "-yes", "-detach")
    assert "the job is put back as its file says in 1s" in " ".join(warned.out.split())
    drift_of(repository, count=0)
    assert len(server.running_allocations(name, 1)) == 1
    [latest, *_] = server.get("/v1/gitops/rollouts", source=name)
    assert latest["Trigger"] == "drift"
    assert [job["JobID"] for job in latest["Jobs"]] == [name]


def test_adopted_change_is_in_the_repository_and_tasks_are_not_restarted(
    repository: Repository,
) -> None:
    pushed(repository)
    server, name = repository.server, repository.name
    done = server.cli("source", "set", name, "-drift", "adopt", "-drift-delay", "1s")
    assert done.code == 0, done.text
    assert server.cli("job", "scale", name, "2", "-detach").code == 0
    before = {alloc["ID"] for alloc in server.running_allocations(name, 2)}
    drift_of(repository, count=0)
    git(repository.path, "pull", "-q", "origin", "main")
    assert "count = 2" in (repository.path / "jobs/app.nomad.hcl").read_text()
    assert {alloc["ID"] for alloc in server.running_allocations(name, 2)} == before
    assert "No job has drifted." in server.cli("source", "drift", name).out


def test_version_that_failed_and_was_reverted_automatically_is_held_and_has_not_drifted(
    repository: Repository,
) -> None:
    pushed(repository, auto_revert=True)
    server, name = repository.server, repository.name
    assert server.cli("source", "set", name, "-drift", "heal", "-drift-delay", "1s").code == 0
    bad = sleeper(name, version="2", command="exit 7", auto_revert=True, is_bad=True)
    repository.write("jobs/app.nomad.hcl", bad)
    repository.commit("Bad")
    assert "Failed after" in repository.push()
    server.wait_for(f"/v1/gitops/source/{name}/held", lambda answer: len(answer) == 1)
    drift_of(repository, count=0)
    versions = server.get(f"/v1/job/{name}/versions")["Versions"]
    assert [each["Version"] for each in versions] == [2, 1, 0], versions
