"""The scheduler workers over HTTP: how many, for what, and that the setting is real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchgit.model.operator import SchedulerConfig
from tests.support.server_rig import ServerRig, server_rig

CONFIG = "/v1/agent/schedulers/config"


def _workers(rig: ServerRig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rig.http.get("/v1/agent/schedulers").json()["schedulers"]
    return found


def test_number_and_types_of_workers_change_live(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False) as rig:
        before = rig.http.get(CONFIG).json()
        assert before["num_schedulers"] == 1
        assert before["enabled_schedulers"] == ["service", "batch", "system", "sysbatch", "_core"]
        more = {"num_schedulers": 2, "enabled_schedulers": ["batch", "_core"]}
        answer = rig.http.put(CONFIG, json=more)
        assert answer.status_code == 200
        assert answer.json() == {**more, "server_id": before["server_id"]}
        assert rig.http.get(CONFIG).json() == answer.json()
        assert [each["enabled_schedulers"] for each in _workers(rig)] == [["batch"]] * 2
        assert rig.http.put(CONFIG, json={"num_schedulers": 0}).json()["num_schedulers"] == 0
        assert _workers(rig) == []


def test_workers_pause_and_resume_live(tmp_path: Path) -> None:
    job = {"ID": "j", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "exec"}]}]}
    with server_rig(tmp_path, with_agent=False) as rig:
        assert rig.http.put(CONFIG, json={"paused": True}).json()["paused"] is True
        told = [(each["status"], each["workload_status"]) for each in _workers(rig)]
        assert told == [("Paused", "Paused")]
        registered = rig.http.put("/v1/jobs", json={"Job": job}).json()
        path = f"/v1/evaluation/{registered['EvalID']}"
        assert rig.http.get(path).json()["Status"] == "pending"
        more = rig.http.put(CONFIG, json={"num_schedulers": 2}).json()
        assert more["paused"] is True, "a new worker rests with the others"
        assert rig.http.get(path).json()["Status"] == "pending"
        assert "paused" not in rig.http.put(CONFIG, json={"paused": False}).json()
        rig.wait_for(path, lambda evaluation: evaluation["Status"] == "complete")
        workloads = {each["workload_status"] for each in _workers(rig)}
        assert workloads <= {"WaitingToDequeue", "Scheduling", "SubmittingPlan", "WaitingForRaft"}


def test_evaluation_waits_for_a_worker_of_its_type(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        job = {"ID": "j", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "exec"}]}]}
        registered = rig.http.put("/v1/jobs", json={"Job": job}).json()
        path = f"/v1/evaluation/{registered['EvalID']}"
        assert rig.http.get(path).json()["Status"] == "pending"
        rig.http.put(CONFIG, json={"num_schedulers": 1}).raise_for_status()
        ended = rig.wait_for(path, lambda evaluation: evaluation["Status"] == "complete")
        blocked = rig.http.get(f"/v1/evaluation/{ended['BlockedEval']}").json()
        assert blocked["Status"] == "blocked"
        assert blocked["FailedTGAllocs"]["g"]["NodesEvaluated"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {"num_schedulers": -1},
        {"num_schedulers": 1000},
        {"num_schedulers": "two"},
        {"enabled_schedulers": ["magic"]},
        {"enabled_schedulers": [1]},
        {"paused": "yes"},
    ],
)
def test_invalid_scheduler_setting_changes_nothing(tmp_path: Path, body: dict[str, Any]) -> None:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        before = rig.http.get(CONFIG).json()
        assert rig.http.put(CONFIG, json=body).status_code == 400
        assert rig.http.get(CONFIG).json() == before


def test_new_cluster_starts_with_the_configured_schedulers(tmp_path: Path) -> None:
    path = "/v1/operator/scheduler/configuration"
    wanted = SchedulerConfig(scheduler_algorithm="spread")
    with server_rig(tmp_path, with_agent=False, scheduler_config=wanted) as rig:
        stored = rig.wait_for(path, lambda answer: answer["SchedulerConfig"]["ModifyIndex"] > 0)
        config = stored["SchedulerConfig"]
        assert config["SchedulerAlgorithm"] == "spread"
        changed = {**config, "SchedulerAlgorithm": "binpack"}
        rig.http.put(path, json=changed).raise_for_status()
    with server_rig(tmp_path, with_agent=False, scheduler_config=wanted) as rig:
        config = rig.http.get(path).json()["SchedulerConfig"]
        assert config["SchedulerAlgorithm"] == "binpack", "what was changed since stays"
