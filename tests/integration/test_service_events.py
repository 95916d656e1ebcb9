"""Events of services, as a follower of the stream reads them while a job starts and stops."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.integration.test_event_subjects import RECORDED, events
from tests.support.golden_steps import differences
from tests.support.server_rig import server_rig

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
