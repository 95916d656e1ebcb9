"""Decisions on a real server with a real agent and tasks that are processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_rig import ServerRig, server_rig

_SECOND = 10**9
Json = dict[str, Any]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(Path(tmp_path_factory.mktemp("live"))) as rig:
        rig.wait_ready_node()
        yield rig


def _job(name: str, kind: str, script: str, **group: Any) -> Json:
    return {
        "ID": name,
        "Name": name,
        "Type": kind,
        "Datacenters": ["*"],
        "TaskGroups": [
            {
                "Name": "web",
                "Count": 1,
                "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
                "Tasks": [
                    {
                        "Name": "web",
                        "Driver": "raw_exec",
                        "Config": {"command": "/bin/sh", "args": ["-c", script]},
                        "Resources": {"CPU": 50, "MemoryMB": 32},
                    }
                ],
                **group,
            }
        ],
    }


def _by_name(allocations: list[Json]) -> dict[str, Json]:
    return {each["Name"].split(".")[1]: each for each in allocations}


def test_lower_count_stops_failed_allocations_and_keeps_running_ones(rig: ServerRig) -> None:
    script = 'test "$NOMAD_ALLOC_INDEX" = 0 || exit 1; exec sleep 600'
    policy = {"Delay": 3600 * _SECOND, "DelayFunction": "constant", "Unlimited": True}
    job = _job("down", "service", script, Count=2, ReschedulePolicy=policy)
    rig.register(job)
    path = "/v1/job/down/allocations"

    def waits(found: list[Json]) -> bool:
        status = {name: each["ClientStatus"] for name, each in _by_name(found).items()}
        later = all(each["FollowupEvalID"] for each in found if each["ClientStatus"] == "failed")
        return status == {"web[0]": "running", "web[1]": "failed"} and later

    rig.wait_for(path, waits)
    job["TaskGroups"][0]["Count"] = 1
    evaluation = rig.register(job)["EvalID"]
    rig.wait_for(f"/v1/evaluation/{evaluation}", lambda found: found["Status"] == "complete")
    found = _by_name(rig.http.get(path).json())
    assert {name: each["DesiredStatus"] for name, each in found.items()} == {
        "web[0]": "run",
        "web[1]": "stop",
    }
    assert found["web[0]"]["ClientStatus"] == "running"


def test_deployment_of_a_system_job_updated_in_place_ends(rig: ServerRig) -> None:
    update = {
        "MaxParallel": 1,
        "HealthCheck": "task_states",
        "MinHealthyTime": _SECOND // 10,
        "HealthyDeadline": 60 * _SECOND,
        "ProgressDeadline": 120 * _SECOND,
    }
    job = _job("each", "system", "exec sleep 600", Update=update)
    rig.register(job)
    path = "/v1/job/each/deployments"

    def successful(number: int) -> Any:
        return lambda found: [d["Status"] for d in found] == ["successful"] * number

    rig.wait_for(path, successful(1))
    (before,) = rig.http.get("/v1/job/each/allocations").json()
    job["TaskGroups"][0]["RestartPolicy"] = {"Attempts": 3, "Mode": "fail"}
    rig.register(job)
    deployments = rig.wait_for(path, successful(2))
    (after,) = rig.http.get("/v1/job/each/allocations").json()
    assert (after["ID"], after["JobVersion"]) == (before["ID"], 1)
    newest = max(deployments, key=lambda each: int(each["JobVersion"]))
    full = rig.http.get(f"/v1/allocation/{after['ID']}").json()
    assert full["DeploymentID"] == newest["ID"]
    assert newest["TaskGroups"]["web"]["HealthyAllocs"] == 1
