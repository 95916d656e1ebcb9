"""What Nomad's clients send and expect, against a real server and agent."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.server_rig import ServerRig, server_rig

_numbers = itertools.count(1)
WAITS = "echo one; echo two; exec sleep 1000"


def task_job(command: str = WAITS, **fields: Any) -> dict[str, Any]:
    """A job of its own for each test; `group` holds fields of its only group."""
    group = {
        "Name": "g",
        "Tasks": [
            {
                "Name": "t",
                "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", command]},
                "Resources": {"CPU": 20, "MemoryMB": 16},
                **fields.pop("task", {}),
            }
        ],
        **fields.pop("group", {}),
    }
    if fields.get("Type", "service") == "service":
        group.setdefault("Update", {"HealthCheck": "task_states", "MinHealthyTime": 1_000_000})
    return {"ID": f"client-{next(_numbers)}", "TaskGroups": [group], **fields}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("clients")) as rig:
        rig.wait_ready_node()
        yield rig


@pytest.fixture
def http(rig: ServerRig) -> httpx.Client:
    return rig.http


def running(rig: ServerRig, job_id: str) -> dict[str, Any]:
    found = rig.wait_for(
        f"/v1/job/{job_id}/allocations",
        lambda allocs: any(each["ClientStatus"] == "running" for each in allocs),
    )
    return dict(next(each for each in found if each["ClientStatus"] == "running"))


@pytest.fixture(scope="module")
def web(rig: ServerRig) -> dict[str, Any]:
    """A running allocation that wrote two lines."""
    job = task_job()
    rig.register(job)
    alloc = running(rig, job["ID"])
    log = {"task": "t", "type": "stdout", "plain": "true"}
    rig.wait_for(f"/v1/job/{job['ID']}/deployments", lambda found: found[0]["Status"] != "running")
    assert rig.http.get(f"/v1/client/fs/logs/{alloc['ID']}", params=log).text == "one\ntwo\n"
    return alloc


# -- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 7, 8, 9, 12, 15, 32])
@pytest.mark.parametrize("kind", ["allocations", "evaluations", "nodes", "deployments"])
def test_lists_find_a_prefix_without_hyphens(
    rig: ServerRig, web: dict[str, Any], kind: str, length: int
) -> None:
    ids = [each["ID"] for each in rig.http.get(f"/v1/{kind}").json()]
    prefix = ids[0].replace("-", "")[:length]
    for text in (prefix, prefix.upper()):
        found = rig.http.get(f"/v1/{kind}", params={"prefix": text}).json()
        assert ids[0] in [each["ID"] for each in found]


def test_search_finds_a_prefix_without_hyphens_in_an_empty_namespace(
    http: httpx.Client, web: dict[str, Any]
) -> None:
    prefix = web["ID"].replace("-", "")[:13]
    body = {"Prefix": prefix, "Context": "allocs", "Namespace": ""}
    assert http.put("/v1/search", json=body).json()["Matches"] == {"allocs": [web["ID"]]}
    fuzzy = {"Text": web["JobID"], "Context": "jobs", "Namespace": ""}
    matches = http.put("/v1/search/fuzzy", json=fuzzy).json()["Matches"]
    assert {"ID": web["JobID"], "Scope": ["default", web["JobID"]]} in matches["jobs"]


def test_volume_of_an_empty_namespace_is_in_the_default_one(
    http: httpx.Client, web: dict[str, Any]
) -> None:
    volume = {"Name": "empty-namespace", "Namespace": "", "NodeID": web["NodeID"]}
    made = http.put("/v1/volume/host/create", json={"Volume": volume}).json()["Volume"]
    assert made["Namespace"] == "default"
    prefix = made["ID"].replace("-", "")[:11].upper()
    listed = http.get("/v1/volumes", params={"type": "host", "prefix": prefix}).json()
    assert [each["ID"] for each in listed] == [made["ID"]]


def test_job_of_an_empty_namespace_is_in_the_default_one(rig: ServerRig) -> None:
    job = task_job("true", Type="batch", Namespace="")
    rig.register(job)
    assert rig.http.get(f"/v1/job/{job['ID']}").json()["Namespace"] == "default"


# -- jobs --------------------------------------------------------------------------------------


def test_job_registered_as_read_makes_no_new_version(rig: ServerRig, http: httpx.Client) -> None:
    network = {"DynamicPorts": [{"Label": "http"}], "ReservedPorts": []}
    service = {"Name": "again", "Provider": "nomad", "PortLabel": "http"}
    job = task_job(
        "true", Type="batch", Constraints=[], group={"Networks": [network], "Services": [service]}
    )
    rig.register(job)
    read = http.get(f"/v1/job/{job['ID']}").json()
    rig.register(read)
    assert http.get(f"/v1/job/{job['ID']}").json()["Version"] == 0


@pytest.mark.parametrize(
    "fields",
    [{"Periodic": {"Specs": ["0 0 1 1 *"], "Enabled": True}}, {"ParameterizedJob": {}}],
    ids=["periodic", "parameterized"],
)
def test_plan_of_a_job_with_children_shows_placements_of_one_launch(
    rig: ServerRig, http: httpx.Client, fields: dict[str, Any]
) -> None:
    job = task_job("true", Type="batch", **fields)
    path = f"/v1/job/{job['ID']}/plan"
    for _ in ("new", "registered"):
        plan = http.put(path, json={"Job": job, "Diff": True}).json()
        assert plan["Annotations"]["DesiredTGUpdates"]["g"]["Place"] == 1
        assert plan["FailedTGAllocs"] is None
        assert (plan["NextPeriodicLaunch"] is not None) == ("Periodic" in fields)
        rig.register(job)


def test_invalid_number_in_a_body_is_refused_naming_its_key(http: httpx.Client) -> None:
    body = {"Job": task_job(), "EnforceIndex": True, "JobModifyIndex": "7"}
    answer = http.put("/v1/jobs", json=body)
    assert answer.status_code == 400
    assert "JobModifyIndex" in answer.text


def test_node_pool_takes_the_identity_ttl_as_go_clients_write_it(http: httpx.Client) -> None:
    for name, sent, shown in (("ttl-a", "48h0m0s", 48), ("ttl-b", "", 24)):
        body = {"Name": name, "NodeIdentityTTL": sent}
        assert http.put("/v1/node/pools", json=body).status_code == 200
        found = http.get(f"/v1/node/pool/{name}").json()
        assert found["NodeIdentityTTL"] == shown * 3600 * 1_000_000_000


# -- files and logs ----------------------------------------------------------------------------


def test_readat_with_a_limit_of_minus_one_reads_to_the_end(
    http: httpx.Client, web: dict[str, Any]
) -> None:
    path = f"/v1/client/fs/readat/{web['ID']}"
    params = {"path": "alloc/logs/t.stdout.0", "offset": "2"}
    assert http.get(path, params={**params, "limit": "-1"}).text == "e\ntwo\n"
    assert http.get(path, params={**params, "limit": "3"}).text == "e\nt"
    refused = http.get(path, params={**params, "limit": "-2"})
    assert (refused.status_code, "limit" in refused.text) == (200, True)  # as recorded


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ({}, "one\ntwo\n"),
        ({"origin": "start", "offset": "4"}, "two\n"),
        ({"origin": "end"}, "one\ntwo\n"),
        ({"origin": "end", "offset": "0"}, "one\ntwo\n"),
        ({"origin": "end", "offset": "3"}, "wo\n"),
    ],
)
def test_followed_log_begins_with_existing_lines(
    http: httpx.Client, web: dict[str, Any], query: dict[str, str], first: str
) -> None:
    params = {"task": "t", "type": "stdout", "follow": "true", **query}
    with http.stream("GET", f"/v1/client/fs/logs/{web['ID']}", params=params) as stream:
        frame = json.loads(next(stream.iter_bytes()))
    assert base64.b64decode(frame["Data"]).decode() == first
    assert frame["Offset"] == 8


def test_ls_without_a_path_lists_the_top(http: httpx.Client, web: dict[str, Any]) -> None:
    names = [each["Name"] for each in http.get(f"/v1/client/fs/ls/{web['ID']}").json()]
    assert names == ["alloc", "t"]


# -- events ------------------------------------------------------------------------------------


def first_batch(http: httpx.Client, **params: Any) -> dict[str, Any]:
    with http.stream("GET", "/v1/event/stream", params=params) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "{}"
        return dict(json.loads(next(lines)))


def test_event_stream_without_an_index_begins_with_the_oldest_event(rig: ServerRig) -> None:
    job = task_job("true", Type="batch")
    done = rig.register(job)
    batch = first_batch(rig.http, topic=f"Job:{job['ID']}")
    assert batch["Events"][0]["Type"] == "JobRegistered"
    assert batch["Index"] >= done["Index"]
    assert first_batch(rig.http)["Index"] <= batch["Index"]


def test_event_stream_with_an_index_leaves_out_earlier_events(rig: ServerRig) -> None:
    job = task_job("true", Type="batch")
    rig.register(job)
    later = rig.register({**job, "Meta": {"v": "2"}})
    batch = first_batch(rig.http, topic=f"Job:{job['ID']}", index=later["Index"])
    assert batch["Events"][0]["Payload"]["Job"]["Version"] == 1


def test_event_stream_from_an_index_of_another_state_begins_with_the_oldest_event(
    rig: ServerRig,
) -> None:
    """Who followed a cluster that was lost and set up again has seen higher indexes."""
    last = rig.register(task_job("true", Type="batch"))["Index"]
    oldest = first_batch(rig.http)["Index"]
    assert first_batch(rig.http, index=last + 1_000_000)["Index"] == oldest


def test_evaluation_in_an_event_equals_the_answered_one(rig: ServerRig) -> None:
    job = task_job("true", Type="batch")
    done = rig.register(job)
    batch = first_batch(rig.http, topic=f"Evaluation:{done['EvalID']}")
    (event,) = batch["Events"]
    assert (event["Type"], event["FilterKeys"]) == ("JobRegistered", [job["ID"], ""])
    assert "WaitUntil" not in event["Payload"]["Evaluation"]


def test_event_stream_of_a_namespace_leaves_out_others(rig: ServerRig) -> None:
    rig.http.put("/v1/namespace", json={"Name": "events"})
    job = task_job("true", Type="batch", Namespace="events")
    rig.register(job)
    batch = first_batch(rig.http, namespace="events", topic="Job")
    assert {event["Namespace"] for event in batch["Events"]} == {"events"}


# -- services ----------------------------------------------------------------------------------


def test_services_are_registered_with_their_references_replaced(rig: ServerRig) -> None:
    group = {
        "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
        "Meta": {"team": "ops"},
        "Services": [
            {
                "Name": "${JOB}-${NOMAD_GROUP_NAME}",
                "Provider": "nomad",
                "PortLabel": "http",
                "Tags": ["port-${NOMAD_HOST_PORT_http}", "${node.datacenter}", "${unknown}"],
            }
        ],
    }
    own = {"Name": "own-${TASK}", "Provider": "nomad", "Tags": ["${NOMAD_META_team}", "${A}"]}
    job = task_job(group=group, task={"Services": [own], "Env": {"A": "${node.unique.name}"}})
    rig.register(job)
    alloc = running(rig, job["ID"])
    of_group, of_task = rig.http.get(f"/v1/allocation/{alloc['ID']}/services").json()
    assert of_group["ServiceName"] == f"{job['ID']}-g"
    assert of_group["Tags"] == [f"port-{of_group['Port']}", "dc1", "${unknown}"]
    assert (of_task["ServiceName"], of_task["Tags"]) == ("own-t", ["ops", "rig"])


def test_canary_has_its_own_tags_until_it_is_promoted(rig: ServerRig) -> None:
    service = {"Name": "canary-tags", "Provider": "nomad", "Tags": ["live"], "CanaryTags": ["new"]}
    update = {"HealthCheck": "task_states", "MinHealthyTime": 1_000_000, "Canary": 1}
    job = task_job(group={"Services": [service], "Update": update})
    rig.register(job)
    running(rig, job["ID"])
    deployments = f"/v1/job/{job['ID']}/deployments"
    rig.wait_for(deployments, lambda found: found[0]["Status"] == "successful")
    rig.register({**job, "Meta": {"v": "2"}})
    waiting = rig.wait_for(
        deployments,
        lambda found: (
            any(each["TaskGroups"]["g"]["HealthyAllocs"] for each in found[:1])
            and found[0]["Status"] == "running"
        ),
    )
    tags = [each["Tags"] for each in rig.http.get("/v1/service/canary-tags").json()]
    assert sorted(tags) == [["live"], ["new"]]
    body = {"DeploymentID": waiting[0]["ID"], "All": True}
    assert rig.http.put(f"/v1/deployment/promote/{waiting[0]['ID']}", json=body).is_success
    tags = [each["Tags"] for each in rig.http.get("/v1/service/canary-tags").json()]
    assert ["new"] not in tags


# -- evaluations -------------------------------------------------------------------------------


@pytest.fixture
def paused(http: httpx.Client) -> Iterator[None]:
    path = "/v1/operator/scheduler/configuration"
    http.put(path, json={"PauseEvalBroker": True})
    yield
    http.put(path, json={"PauseEvalBroker": False})


def evaluated_job(rig: ServerRig) -> str:
    job = task_job("true", Type="batch")
    done = rig.register(job)
    rig.wait_for(f"/v1/evaluation/{done['EvalID']}", lambda found: found["Status"] == "complete")
    return str(job["ID"])


@pytest.mark.parametrize("where", ["body", "query"])
def test_deleting_evaluations_by_a_filter_leaves_the_others(rig: ServerRig, where: str) -> None:
    gone, kept = evaluated_job(rig), evaluated_job(rig)
    text = f'JobID == "{gone}"'
    form = {"json": {"Filter": text}} if where == "body" else {"params": {"filter": text}}
    rig.http.put("/v1/operator/scheduler/configuration", json={"PauseEvalBroker": True})
    count = len(rig.http.get(f"/v1/job/{gone}/evaluations").json())
    answer = rig.http.request("DELETE", "/v1/evaluations", **form)
    rig.http.put("/v1/operator/scheduler/configuration", json={"PauseEvalBroker": False})
    assert answer.json()["Count"] == count >= 1
    assert rig.http.get(f"/v1/job/{gone}/evaluations").json() == []
    assert rig.http.get(f"/v1/job/{kept}/evaluations").json() != []


@pytest.mark.usefixtures("paused")
def test_deleting_evaluations_by_both_or_neither_is_refused(http: httpx.Client) -> None:
    both = {"EvalIDs": ["x"], "Filter": 'JobID == "x"'}
    for body, why in ((both, "both"), ({}, "either")):
        answer = http.request("DELETE", "/v1/evaluations", json=body)
        assert answer.status_code == 500
        assert why in answer.text


@pytest.mark.usefixtures("paused")
def test_deleting_evaluations_by_an_invalid_filter_is_refused(http: httpx.Client) -> None:
    answer = http.request("DELETE", "/v1/evaluations", json={"Filter": "JobID = 1"})
    assert answer.status_code == 400
