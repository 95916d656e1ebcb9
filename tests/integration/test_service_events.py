"""Events of services, as a follower of the stream reads them while a job starts and stops."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.integration.test_event_subjects import RECORDED, events
from tests.support.golden_steps import differences
from tests.support.server_rig import ServerRig, server_rig

_JOB: dict[str, Any] = {
    "ID": "web",
    "Name": "web",
    "Type": "service",
    "Datacenters": ["dc1"],
    "TaskGroups": [
        {
            "Name": "g",
            "Count": 1,
            "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
            "Services": [
                {"Name": "web", "PortLabel": "http", "Provider": "nomad", "Tags": ["a", "b"]},
            ],
            "Tasks": [
                {"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}},
            ],
        }
    ],
}


def test_services_are_registered_when_a_job_runs_and_deregistered_when_it_stops(
    tmp_path: Path,
) -> None:
    with server_rig(tmp_path) as rig:
        rig.wait_ready_node()
        assert rig.http.put("/v1/jobs", json={"Job": _JOB}).status_code == 200
        rig.wait_for("/v1/service/web", lambda found: len(found) == 1)
        (listed,) = rig.http.get("/v1/service/web").json()
        assert rig.http.delete("/v1/job/web").status_code == 200
        registered, deregistered = events(rig, "Service:web", 2)
    wanted = deepcopy(RECORDED["Service/ServiceRegistration"]["event"])
    wanted["Payload"]["Service"]["Address"] = listed["Address"]
    assert [*differences({**wanted, "Key": "<string>"}, registered)] == []
    assert registered["Key"] == f"_nomad-task-{listed['AllocID']}-group-g-web-http"
    assert registered["Payload"]["Service"]["Port"] == listed["Port"]
    assert deregistered["Type"] == "ServiceDeregistration"
    assert deregistered["Payload"]["Service"]["ID"] == listed["ID"]
    assert deregistered["Index"] > registered["Index"]


def _task(name: str, config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    config = {"run_for": "1h", **config}
    return {"Name": name, "Driver": "mock_driver", "Config": config, **fields}


def _service(name: str, mode: str, port: str = "http") -> dict[str, Any]:
    return {"Name": name, "PortLabel": port, "Provider": "nomad", "AddressMode": mode}


def _registered(rig: ServerRig, job: str) -> dict[str, tuple[str, int]]:
    listed = rig.http.get(f"/v1/job/{job}/services").json()
    return {each["ServiceName"]: (each["Address"], each["Port"]) for each in listed}


def test_service_is_registered_at_the_address_that_the_driver_gave_while_its_task_runs(
    tmp_path: Path,
) -> None:
    job = deepcopy(_JOB) | {"ID": "own", "Name": "own"}
    group = job["TaskGroups"][0]
    group["RestartPolicy"] = {"Attempts": 0, "Mode": "fail"}
    own = {"driver_ip": "172.20.0.3", "driver_port_map": {"http": 8080}}
    group["Services"] = []
    group["Tasks"] = [
        _task(
            "first",
            {"driver_ip": "172.20.0.2", "run_for": "20ms"},
            Lifecycle={"Hook": "prestart"},
            Services=[_service("first", "driver", "9000")],
        ),
        _task("plain", own, Services=[_service("plain", "driver"), _service("at-host", "auto")]),
        _task(
            "advertised", own | {"driver_advertise": True}, Services=[_service("advertised", "")]
        ),
        _task("without", {}, Services=[_service("without", "driver")]),
    ]
    with server_rig(tmp_path) as rig:
        rig.wait_ready_node()
        rig.register(job)
        rig.wait_for("/v1/job/own/services", lambda found: len(found) == 3)
        registered = _registered(rig, "own")
        at_host = registered.pop("at-host")
        given = ("172.20.0.3", 8080)
        assert registered == {"plain": given, "advertised": given}
        assert at_host[0] != "172.20.0.3"
        (alloc,) = rig.http.get("/v1/job/own/allocations").json()
        shown = rig.http.get(f"/v1/allocation/{alloc['ID']}").json()["DriverAddresses"]
        assert shown["plain"] == {
            "IP": "172.20.0.3",
            "Ports": {"http": 8080},
            "AutoAdvertise": False,
        }
        assert "without" not in shown
        rig.http.delete("/v1/job/own")
        rig.wait_for("/v1/services", lambda found: found == [])
        plain = events(rig, "Service:plain", 2)
    assert [each["Type"] for each in plain] == ["ServiceRegistration", "ServiceDeregistration"]
    assert {each["Payload"]["Service"]["Address"] for each in plain} == {"172.20.0.3"}
