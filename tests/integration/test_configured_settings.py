"""Settings of the configuration act on a server and a node that run."""

from __future__ import annotations

from pathlib import Path

from orchgit.model.operator import AutopilotConfig
from tests.support.server_rig import server_rig


def test_headers_autopilot_and_eligibility_are_as_configured(tmp_path: Path) -> None:
    with server_rig(
        tmp_path,
        agent_config={"default_ineligible": True},
        http_response_headers={"X-Served-By": "team a"},
        autopilot_config=AutopilotConfig(cleanup_dead_servers=False, max_trailing_logs=7),
    ) as rig:
        node_id = rig.wait_ready_node()
        answer = rig.http.get(f"/v1/node/{node_id}")
        assert answer.json()["SchedulingEligibility"] == "ineligible"
        assert answer.headers["x-served-by"] == "team a"
        assert rig.http.get("/v1/nowhere").headers["x-served-by"] == "team a"
        stored = rig.http.get("/v1/operator/autopilot/configuration").json()
        assert (stored["CleanupDeadServers"], stored["MaxTrailingLogs"]) == (False, 7)
