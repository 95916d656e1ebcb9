"""What a lone server answers to the questions and orders that are about clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.server_rig import ServerRig, server_rig

RAFT = "/v1/operator/raft"
AUTOPILOT = "/v1/operator/autopilot/configuration"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    directory = tmp_path_factory.mktemp("operator")
    with server_rig(directory, with_agent=False, num_schedulers=0) as rig:
        _with_record(rig)
        yield rig.http


def _with_record(rig: ServerRig) -> None:
    """It writes its own record soon after its start."""
    rig.wait_for(f"{RAFT}/configuration", lambda found: found["Servers"][0]["Node"] != "(unknown)")


def own(http: httpx.Client) -> dict[str, object]:
    (server,) = http.get(f"{RAFT}/configuration").json()["Servers"]
    return dict(server)


def test_only_member_is_leader_and_voter(http: httpx.Client) -> None:
    server = own(http)
    assert (server["Leader"], server["Voter"]) == (True, True)
    health = http.get("/v1/operator/autopilot/health")
    assert health.status_code == 200
    assert health.json()["FailureTolerance"] == 0
    assert health.json()["Leader"] == server["ID"]


def test_only_member_cannot_be_removed_or_made_leader_again(http: httpx.Client) -> None:
    server = own(http)
    refused = http.delete(f"{RAFT}/peer", params={"id": server["ID"]})
    assert refused.status_code == 500
    assert "the only member with a vote" in refused.text
    moved = http.put(f"{RAFT}/transfer-leadership", params={"id": server["ID"]}).json()
    assert (moved["Noop"], moved["From"]["ID"]) == (True, server["ID"])


@pytest.mark.parametrize(
    ("method", "path", "none", "status_of_unknown"),
    [
        ("DELETE", f"{RAFT}/peer", "Must specify the peer's ID to remove", 500),
        ("PUT", f"{RAFT}/transfer-leadership", "Must specify either ?id", 400),
    ],
)
def test_server_must_be_named_by_either_id_or_address(
    http: httpx.Client, method: str, path: str, none: str, status_of_unknown: int
) -> None:
    for query, text in (("", none), ("?id=a&address=b", "Must specify either ?id")):
        answer = http.request(method, path + query)
        assert answer.status_code == 400
        assert text in answer.text
    unknown = http.request(method, f"{path}?address=10.0.0.1:4648")
    assert unknown.status_code == status_of_unknown
    assert '"10.0.0.1:4648" was not found in the Raft configuration' in unknown.text


def test_join_of_a_silent_server_fails_and_an_unknown_one_has_left(http: httpx.Client) -> None:
    assert http.put("/v1/agent/join").status_code == 400
    assert http.put("/v1/agent/join?address=provider=aws").status_code == 400
    silent = http.put("/v1/agent/join?address=127.0.0.1:1").json()
    assert (silent["num_joined"], silent["warning"]) == (0, "")
    assert "failed to join 127.0.0.1:1" in silent["error"]
    assert http.put("/v1/agent/force-leave").status_code == 400
    unknown = http.put("/v1/agent/force-leave?node=nobody")
    assert (unknown.status_code, unknown.text) == (200, "")


def test_autopilot_configuration_reads_back(http: httpx.Client) -> None:
    changed = {
        "LastContactThreshold": "1.5s",
        "servERstabilizationTIME": "20s",
        "MinQuorum": 3,
        "EnableRedundancyZones": True,
    }
    assert http.put(AUTOPILOT, json=changed).json() is True
    found = http.get(AUTOPILOT).json()
    assert found["LastContactThreshold"] == "1.5s"
    assert found["ServerStabilizationTime"] == "20s"
    assert (found["MinQuorum"], found["EnableRedundancyZones"]) == (3, True)
    index = found["ModifyIndex"]
    assert http.put(f"{AUTOPILOT}?cas={index - 1}", json={}).json() is False
    assert http.put(f"{AUTOPILOT}?cas={index}", json={"MinQuorum": 5}).json() is True
    assert http.get(AUTOPILOT).json()["CreateIndex"] == found["CreateIndex"]


@pytest.mark.parametrize(
    "config",
    [{"MinQuorum": -1}, {"LastContactThreshold": "often"}, {"MaxTrailingLogs": "many"}],
)
def test_invalid_autopilot_configuration_is_refused(
    http: httpx.Client, config: dict[str, object]
) -> None:
    assert http.put(AUTOPILOT, json=config).status_code == 400


def test_agent_self_shows_the_state_of_the_log(http: httpx.Client) -> None:
    raft = http.get("/v1/agent/self").json()["stats"]["raft"]
    assert raft["state"] == "Leader"
    assert raft["num_peers"] == "0"
    assert int(raft["last_log_index"]) >= int(raft["applied_index"])


def test_agent_tells_of_raft_and_of_members_under_the_recorded_names(http: httpx.Client) -> None:
    recorded = Path(__file__).parents[1] / "golden" / "api" / "bodies" / "agent-operator.json"
    steps = json.loads(recorded.read_text(encoding="utf-8"))["steps"]
    wanted = next(each for each in steps if each["request"]["path"] == "/v1/agent/self")
    stats = http.get("/v1/agent/self").json()["stats"]
    for part in ("raft", "serf", "nomad"):
        assert stats[part].keys() == wanted["response"]["json"]["stats"][part].keys()
    assert (stats["raft"]["state"], stats["raft"]["num_peers"]) == ("Leader", "0")
    assert int(stats["raft"]["last_log_index"]) > 0
    assert int(stats["raft"]["applied_index"]) > 0
    assert stats["raft"]["last_log_term"] == stats["raft"]["term"] != "0"
    server = own(http)
    member = f"{{Suffrage:Voter ID:{server['ID']} Address:{server['Address']}}}"
    assert stats["raft"]["latest_configuration"] == f"[{member}]"
    assert (stats["serf"]["members"], stats["serf"]["failed"], stats["serf"]["left"]) == (
        *("1", "0", "0"),
    )
