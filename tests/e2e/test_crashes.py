"""`kill -9` at any moment: tasks keep their pids, nothing acknowledged is lost, rollouts go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Repository
from tests.support.dev_server import dev_server
from tests.support.job_texts import batch, depending, sleeper


@pytest.fixture
def crashing(tmp_path: Path) -> object:
    with dev_server(tmp_path / "data", "-no-demo") as server:
        yield Repository(server, "crash", tmp_path)


def test_killed_server_leaves_tasks_running_with_the_same_pids(crashing: Repository) -> None:
    crashing.write("c.nomad.hcl", sleeper("crash", count=2))
    commit = crashing.commit("Two tasks")
    crashing.push()
    before = crashing.server.running_allocations("crash", 2)
    pids = {each["ID"]: crashing.server.task_pids(each["ID"]) for each in before}
    assert all(pids.values())

    crashing.server.kill9()
    assert {each: crashing.server.task_pids(each) for each in pids} == pids
    crashing.server.start()

    after = crashing.server.running_allocations("crash", 2)
    assert {each["ID"] for each in after} == set(pids)
    assert {each: crashing.server.task_pids(each) for each in pids} == pids
    assert crashing.server.get("/v1/gitops/source/crash")["Status"]["AppliedCommit"] == commit


@pytest.mark.long
def test_interrupted_rollout_continues_after_a_server_crash(crashing: Repository) -> None:
    slow = sleeper("crash", count=3).replace(
        'min_healthy_time  = "100ms"', 'min_healthy_time = "1s"'
    )
    crashing.write("c.nomad.hcl", slow)
    crashing.commit("One")
    crashing.push()
    crashing.write("c.nomad.hcl", slow.replace('VERSION = "1"', 'VERSION = "2"'))
    commit = crashing.commit("Two, interrupted")
    crashing.push("-o", "detach")
    crashing.server.kill9()
    crashing.server.start()
    rollout = crashing.server.wait_for(
        f"/v1/gitops/rollout/{commit}", lambda found: found["FinishedTime"] > 0
    )
    assert rollout["Status"] == "healthy"
    versions = {
        crashing.server.log(each["ID"], "main").split()[-1]
        for each in crashing.server.running_allocations("crash", 3)
    }
    assert versions == {"2"}


def test_task_that_ended_while_the_agent_was_dead_is_reported(crashing: Repository) -> None:
    gate = crashing.path.parent / "gate"
    text = sleeper("crash", command=f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 5")
    crashing.write("c.nomad.hcl", text)
    crashing.commit("Ends when told")
    crashing.push()
    [alloc] = crashing.server.running_allocations("crash")
    crashing.server.kill9()
    gate.touch()
    crashing.server.start()
    found = crashing.server.wait_for(
        f"/v1/allocation/{alloc['ID']}", lambda data: data["ClientStatus"] == "failed"
    )
    events = found["TaskStates"]["main"]["Events"]
    assert any(event["ExitCode"] == 5 for event in events)


@pytest.mark.parametrize("round_number", range(3))
def test_acknowledged_push_survives_a_killed_server(
    crashing: Repository, round_number: int
) -> None:
    crashing.write("c.nomad.hcl", sleeper("crash", version=str(round_number)))
    commit = crashing.commit(f"Round {round_number}")
    crashing.push("-o", "detach")
    crashing.server.kill9()
    crashing.server.start()
    assert crashing.server.get("/v1/gitops/source/crash")["Status"]["AppliedCommit"] == commit
    job = crashing.server.get("/v1/job/crash")
    assert job["Origin"]["CommitID"] == commit
    crashing.server.running_allocations("crash")


@pytest.mark.long
def test_stages_go_on_after_crashes_and_each_hook_runs_once(crashing: Repository) -> None:
    runs = crashing.path.parent / "runs"
    crashing.write("orchgit.hcl", 'hook "migrate" {\n  stage = "pre"\n  job   = "migrate"\n}\n')
    crashing.write("migrate.nomad.hcl", batch("migrate", f"sleep 0.3; echo run >> {runs}"))
    crashing.write("web.nomad.hcl", sleeper("web"))
    crashing.write("edge.nomad.hcl", depending(sleeper("edge"), on="web"))
    commit = crashing.commit("Three stages")
    crashing.push("-o", "detach")
    for stage in range(3):
        crashing.server.kill9()
        crashing.server.start()
        crashing.server.wait_for(
            f"/v1/gitops/rollout/{commit}",
            lambda found, stage=stage: all(
                job["Status"] != "waiting" for job in found["Jobs"] if job["Stage"] <= stage
            ),
        )
    rollout = crashing.server.wait_for(
        f"/v1/gitops/rollout/{commit}", lambda found: found["FinishedTime"] > 0
    )
    assert rollout["Status"] == "healthy"
    assert runs.read_text() == "run\n"
    assert [job["JobVersion"] for job in rollout["Jobs"]] == [0, 0, 0]


@pytest.mark.long
def test_waiting_rollout_and_its_approval_survive_server_crashes(crashing: Repository) -> None:
    server = crashing.server
    assert server.cli("source", "set", "crash", "-approvals", "2").code == 0
    crashing.write("c.nomad.hcl", sleeper("crash"))
    commit = crashing.commit("Waits")
    crashing.push("-o", "detach")
    server.kill9()
    server.start()
    waiting = server.wait_for(f"/v1/gitops/rollout/{commit}", lambda found: True)
    assert waiting["Status"] == "awaiting_approval"
    assert server.cli("rollout", "approve", commit, "-yes", "-by", "bob").code == 0
    server.kill9()
    server.start()
    shown = server.wait_for(f"/v1/gitops/rollout/{commit}", lambda found: True)
    assert [each["By"] for each in shown["Gates"]["Approvals"]] == ["bob"]
    assert server.cli("rollout", "approve", commit, "-yes", "-by", "eve").code == 0
    done = server.wait_for(
        f"/v1/gitops/rollout/{commit}", lambda found: found["Status"] == "healthy"
    )
    assert done["ID"] == waiting["ID"]
