"""Every key of Nomad's answers, its kind and its zero value, against a real server and agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.golden_body import differences
from tests.compat.nomad_scenario import NomadScenario, agent_config
from tests.support.server_rig import server_rig

BODIES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "api" / "bodies.json").read_text()
)
STEPS: dict[str, dict[str, Any]] = {
    step["name"]: step for step in (*BODIES["plans"], *BODIES["reads"])
}
KNOWN_DIFFERENCES = {
    ".Identity": "no workload identities: a task has none unless its file asks for one",
    ".QueuedAllocations: Nomad has": "of a blocked evaluation that was looked at again",
    ".JobModifyIndex: Nomad has": "of an evaluation that a failed allocation made",
    ".NextEval": "a delayed evaluation is found by its PreviousEval",
    ".Processors": "the topology of the processors is not looked at",
    ".Diff.": "golden/diff has differences of their own",
}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NomadScenario]:
    directory = tmp_path_factory.mktemp("nomad")
    with server_rig(directory, agent_config=agent_config(directory)) as rig:
        yield NomadScenario(rig, BODIES["writes"])


@pytest.mark.parametrize("name", sorted(STEPS))
def test_answer_has_the_keys_and_types_of_nomads(name: str, scenario: NomadScenario) -> None:
    step = STEPS[name]
    scenario.learn()
    answer = scenario.send(step)
    assert answer.status_code == step["status"], answer.text
    if "json" in step:
        assert _unexpected(step["json"], answer.json()) == []


@pytest.mark.parametrize("kind", sorted(BODIES["events"]))
def test_event_has_the_keys_and_types_of_nomads(kind: str, scenario: NomadScenario) -> None:
    topic, _, type_ = kind.partition("/")
    wanted = BODIES["events"][kind]["event"]
    latest = int(scenario.rig.http.get("/v1/evaluations").headers["X-Nomad-Index"])
    found: list[list[str]] = []
    with scenario.rig.http.stream("GET", "/v1/event/stream", params={"topic": topic}) as stream:
        for line in stream.iter_lines():
            batch = json.loads(line)
            events = [each for each in batch.get("Events", ()) if each["Type"] == type_]
            found += [_unexpected(wanted, each) for each in events]
            if [] in found or batch.get("Index", 0) >= latest:
                break
    assert min(found, key=len) == []


@pytest.mark.parametrize("job_id", ["web", "done", "sticky", "per", "param", "nofit"])
def test_job_registered_as_read_stays_the_same_version(
    job_id: str, scenario: NomadScenario
) -> None:
    http = scenario.rig.http
    read = http.get(f"/v1/job/{job_id}").json()
    plan = http.put(f"/v1/job/{job_id}/plan", json={"Job": read, "Diff": True}).json()
    assert plan["Diff"]["Type"] == "None"
    scenario.rig.register(read)
    assert http.get(f"/v1/job/{job_id}").json()["Version"] == read["Version"]


def test_agent_self_tells_of_heartbeats_and_allocations_as_nomads(scenario: NomadScenario) -> None:
    rig = scenario.rig
    rig.wait_ready_node()
    scenario.learn()
    client = rig.http.get("/v1/agent/self").json()["stats"]["client"]
    assert client.keys() == {
        "node_id",
        "known_servers",
        "num_allocations",
        "last_heartbeat",
        "heartbeat_ttl",
    }
    assert client["known_servers"] == rig.server.rpc_address
    assert int(client["num_allocations"]) > 0
    assert client["heartbeat_ttl"].endswith("s")


def _unexpected(wanted: Any, found: Any) -> list[str]:
    return [
        line
        for line in differences(wanted, found)
        if not any(known in line for known in KNOWN_DIFFERENCES)
    ]
