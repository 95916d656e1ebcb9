"""How the API behaves on the wire, on a real server without an agent."""

from __future__ import annotations

import base64
import contextlib
import gzip
import itertools
import json
import re
import socket
import time
import uuid
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import cramjam
import httpx
import pytest

from orchgit.api.call import MAX_BODY_BYTES
from orchgit.errors import DiskFullError
from orchgit.raft_log.disk_space import STATE
from orchgit.services.context import UseCaseContext
from orchgit.services.nodes.operations import purge_node
from orchgit.services.nodes.registration import register_node
from tests.support.factories import make_job, make_node
from tests.support.server_rig import ServerRig, server_rig
from tests.support.use_cases import placed_job, ready_node

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("http"), with_agent=False, num_schedulers=0) as found:
        yield found


@pytest.fixture
def http(rig: ServerRig) -> httpx.Client:
    return rig.http


def new_id(prefix: str = "job") -> str:
    return f"{prefix}-{next(_numbers)}"


def job(job_id: str, **fields: Any) -> dict[str, Any]:
    task = {"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}
    return {"ID": job_id, "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [task]}], **fields}


def test_registered_job_is_read_with_its_indexes(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    done = rig.register(job(job_id))
    answer = http.get(f"/v1/job/{job_id}")
    assert answer.json()["JobModifyIndex"] == done["JobModifyIndex"]
    assert int(answer.headers["x-nomad-index"]) == answer.json()["ModifyIndex"]
    assert answer.headers["x-nomad-knownleader"] == "true"
    evaluation = http.get(f"/v1/evaluation/{done['EvalID']}").json()
    assert evaluation["JobID"] == job_id


def test_keys_of_a_job_are_read_in_any_case(http: httpx.Client) -> None:
    job_id = new_id()
    body = json.dumps({"Job": job(job_id, Meta={"Key": "v"})})
    lower = body.replace('"TaskGroups"', '"taskgroups"').replace('"Job"', '"job"')
    assert http.post("/v1/jobs", content=lower).status_code == 200
    found = http.get(f"/v1/job/{job_id}").json()
    assert found["TaskGroups"][0]["Name"] == "g"
    assert found["Meta"] == {"Key": "v"}


def test_origin_of_a_job_given_by_the_caller_is_ignored(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    rig.register(job(job_id, Origin={"Source": "demo", "CommitID": "f" * 40}))
    assert "Origin" not in http.get(f"/v1/job/{job_id}").json()


def test_job_ids_may_hold_slashes(rig: ServerRig, http: httpx.Client) -> None:
    job_id = f"{new_id()}/dispatch-1"
    rig.register(job(job_id))
    quoted = job_id.replace("/", "%2F")
    for path in (job_id, quoted):
        assert http.get(f"/v1/job/{path}").json()["ID"] == job_id
        assert len(http.get(f"/v1/job/{path}/evaluations").json()) == 1


def test_namespace_of_the_query_overrides_that_of_the_body(http: httpx.Client) -> None:
    name = new_id("ns")
    assert http.put("/v1/namespace", json={"Name": name}).status_code == 200
    job_id = new_id()
    answer = http.put(
        "/v1/jobs", params={"namespace": name}, json={"Job": job(job_id, Namespace="default")}
    )
    assert answer.status_code == 200
    assert http.get(f"/v1/job/{job_id}").status_code == 404
    assert http.get(f"/v1/job/{job_id}", params={"namespace": name}).status_code == 200
    listed = http.get("/v1/jobs", params={"namespace": "*", "prefix": job_id}).json()
    assert [each["Namespace"] for each in listed] == [name]


class Waiting:
    """A blocking read that has been sent and not been answered."""

    def __init__(self, rig: ServerRig, path: str) -> None:
        self._connection = HTTPConnection(rig.server.http_address, timeout=15)
        self._connection.request("GET", "/v1/regions")
        self._connection.getresponse().read()
        self._connection.request("GET", path)

    def answer(self) -> tuple[int, int, Any]:
        """(status, index, value)."""
        answer = self._connection.getresponse()
        body = answer.read()
        self._connection.close()
        return answer.status, int(answer.headers["X-Nomad-Index"]), json.loads(body)


def test_blocking_read_answers_when_its_object_changes(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    rig.register(job(job_id))
    index = http.get(f"/v1/job/{job_id}").headers["x-nomad-index"]
    waiting = Waiting(rig, f"/v1/job/{job_id}?index={index}&wait=20s")
    rig.register(job(new_id()))  # another job does not end the wait
    rig.register(job(job_id, Priority=60))
    status, moved, found = waiting.answer()
    assert (status, found["Priority"]) == (200, 60)
    assert moved > int(index)


def test_blocking_list_answers_when_its_table_changes(rig: ServerRig, http: httpx.Client) -> None:
    prefix = new_id("block")
    index = http.get("/v1/jobs").headers["x-nomad-index"]
    waiting = Waiting(rig, f"/v1/jobs?prefix={prefix}&index={index}&wait=20s")
    rig.register(job(prefix))
    status, moved, found = waiting.answer()
    assert (status, [each["ID"] for each in found]) == (200, [prefix])
    assert moved > int(index)


def test_blocking_read_ends_at_its_wait_time(http: httpx.Client) -> None:
    index = http.get("/v1/deployments").headers["x-nomad-index"]
    began_s = time.monotonic()
    answer = http.get("/v1/deployments", params={"index": index, "wait": "150ms"})
    assert 0.14 < time.monotonic() - began_s < 100, "far less than the default of five minutes"
    assert answer.headers["x-nomad-index"] == index


def test_blocking_read_of_a_missing_object_waits_for_it(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    missing = http.get(f"/v1/job/{job_id}")
    assert missing.status_code == 404
    index = missing.headers["x-nomad-index"]
    waiting = Waiting(rig, f"/v1/job/{job_id}?index={index}&wait=20s")
    rig.register(job(job_id))
    assert waiting.answer()[0] == 200


def test_pages_of_jobs_hold_every_one_once(rig: ServerRig, http: httpx.Client) -> None:
    prefix = new_id("page")
    wanted = [f"{prefix}-{number}" for number in range(7)]
    for job_id in wanted:
        rig.register(job(job_id))
    found: list[str] = []
    params: dict[str, Any] = {"prefix": prefix, "per_page": 3}
    while True:
        answer = http.get("/v1/jobs", params=params)
        found += [each["ID"] for each in answer.json()]
        if "x-nomad-nexttoken" not in answer.headers:
            break
        params["next_token"] = answer.headers["x-nomad-nexttoken"]
    assert found == wanted
    newest = http.get("/v1/jobs", params={"prefix": prefix, "reverse": "true", "per_page": 1})
    assert newest.json()[0]["ID"] == wanted[-1]


def test_answers_are_compressed_and_indented_on_request(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    rig.register(job(job_id))
    with http.stream("GET", f"/v1/job/{job_id}", headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(raw))["ID"] == job_id
    plain = http.get(f"/v1/job/{job_id}", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert http.get(f"/v1/job/{job_id}?pretty").text.startswith('{\n    "')


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PATCH", "/v1/jobs", 405),
        ("DELETE", "/v1/jobs", 405),
        ("PUT", "/v1/agent/self", 405),
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/nothing", 404),
        ("GET", "/v1/jobs?region=mars", 500),
        ("GET", "/v1/jobs?index=-1", 400),
        ("GET", "/v1/jobs?index=1&wait=soon", 400),
        ("GET", "/v1/jobs?per_page=x", 400),
        ("GET", "/v1/job/x?version=x", 400),
        ("GET", "/v1/jobs?filter=%28", 400),
        ("GET", "/v1/client/stats?node_id=none", 500),
        ("GET", "/v1/client/allocation/none/stats", 404),
        ("GET", "/v1/event/stream?index=x", 400),
    ],
)
def test_errors_are_answered_in_plain_text(
    http: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    if answer.content:
        assert answer.headers["content-type"].startswith("text/plain")


def test_page_of_another_site_cannot_change_anything(http: httpx.Client) -> None:
    body = {"Job": job(new_id())}
    foreign = http.put("/v1/jobs", json=body, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    own = http.put("/v1/jobs", json=body, headers={"origin": str(http.base_url).rstrip("/")})
    assert own.status_code == 200
    assert http.get("/v1/jobs", headers={"origin": "http://evil.example"}).status_code == 200


def test_options_request_returns_the_allowed_methods(http: httpx.Client) -> None:
    answer = http.options("/v1/jobs")
    assert answer.status_code == 204
    assert {"GET", "PUT", "POST", "OPTIONS"} <= set(answer.headers["allow"].split(", "))


def test_body_beyond_the_limit_is_refused_before_it_is_read(rig: ServerRig) -> None:
    host, _, port = rig.server.http_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        head = "PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"
        sock.sendall(head.encode())
        assert b" 413 " in sock.recv(4096).partition(b"\r\n")[0]


def test_chunked_body_beyond_the_limit_is_refused(rig: ServerRig) -> None:
    host, _, port = rig.server.http_address.rpartition(":")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(
            b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):  # the server may close while we still send
            for _ in range(MAX_BODY_BYTES // 0x10000 + 1):
                sock.sendall(chunk)
        assert b" 413 " in sock.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"Job": 1}',
        b'{"Job": {"ID": 1}}',
        b'{"Job": {"ID": "x", "TaskGroups": 1}}',
        b'{"Job": {"ID": "x", "TaskGroups": [1]}}',
        b'{"Job": {"ID": "x", "TaskGroups": [{"Count": "many"}]}}',
        b'{"Job": {"ID": "x", "Priority": 1e400}}',
        b'{"Job": ' + b"[" * 5000,
        b'{"Job": {"ID": "x", "Meta": ' + b'{"a":' * 300 + b"1" + b"}" * 302,
    ],
)
def test_malformed_job_is_refused_naming_the_problem(http: httpx.Client, body: bytes) -> None:
    answer = http.put("/v1/jobs", content=body)
    assert answer.status_code == 400
    assert "the server failed" not in answer.text


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("abcde", "illegal base64 data at input byte 4"),
        ("aGVsbG8=", "it is not packed with Snappy"),
        ("/////w8=", "it has 4294967295 bytes, and the limit is 16384"),
    ],
)
def test_payload_that_nothing_could_show_is_refused(
    http: httpx.Client, payload: str, said: str
) -> None:
    body = {"Job": job(new_id(), Payload=payload)}
    for path in ("/v1/jobs", "/v1/validate/job"):
        answer = http.put(path, json=body)
        assert (answer.status_code, said in answer.text) == (400, True), answer.text


def test_payload_of_a_registered_job_is_shown_as_it_was_sent(
    rig: ServerRig, http: httpx.Client
) -> None:
    job_id, sent = new_id(), base64.b64encode(bytes(cramjam.snappy.compress_raw(b"hi"))).decode()
    rig.register(job(job_id, Payload=sent))
    assert http.get(f"/v1/job/{job_id}").json()["Payload"] == sent


def test_event_stream_sends_new_events(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    params = {"topic": f"Job:{job_id}"}
    with http.stream("GET", "/v1/event/stream", params=params) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "{}"
        rig.register(job(new_id()))
        done = rig.register(job(job_id))
        batch = json.loads(next(lines))
    assert batch["Index"] >= done["Index"]
    (event,) = batch["Events"]
    assert (event["Topic"], event["Type"], event["Key"]) == ("Job", "JobRegistered", job_id)
    assert event["Payload"]["Job"]["ID"] == job_id


def test_event_stream_begins_at_a_past_index(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    done = rig.register(job(job_id))
    params = {"topic": f"Job:{job_id}", "index": done["Index"]}
    with http.stream("GET", "/v1/event/stream", params=params) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "{}"
        assert json.loads(next(lines))["Events"][0]["Key"] == job_id


def test_metrics_are_answered_as_json_and_prometheus_text(http: httpx.Client) -> None:
    http.get("/v1/jobs")
    found = http.get("/v1/metrics").json()
    assert any(each["Name"] == "nomad.raft.applied_index" for each in found["Gauges"])
    text = http.get("/v1/metrics", params={"format": "prometheus"}).text
    assert "nomad_raft_applied_index " in text
    assert 'nomad_http_request_seconds_bucket{le="+Inf",method="GET",path="/v1/jobs"}' in text


def test_raft_log_syncs_are_counted_in_both_metric_formats(
    rig: ServerRig, http: httpx.Client
) -> None:
    """As docs/metrics.md names them."""

    def counted() -> dict[str, float]:
        found = http.get("/v1/metrics").json()["Counters"]
        return {one["Name"]: one["Sum"] for one in found}

    before = counted()
    rig.run(rig.server.state.writer.barrier())
    after = counted()
    assert after["nomad.raft.log_syncs"] > before["nomad.raft.log_syncs"]
    assert after["nomad.raft.log_synced_bytes"] > before["nomad.raft.log_synced_bytes"]
    text = http.get("/v1/metrics", params={"format": "prometheus"}).text
    assert "# TYPE nomad_raft_log_syncs_total counter" in text
    assert "# TYPE nomad_raft_log_synced_bytes_total counter" in text
    assert "orchgit_disk_full 0.0" in text


def test_every_answered_metric_is_documented(http: httpx.Client) -> None:
    documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    found = http.get("/v1/metrics").json()
    names = {each["Name"] for kind in ("Gauges", "Counters", "Samples") for each in found[kind]}
    assert "orchgit.disk.full" in names
    assert [name for name in sorted(names) if f"`{name}`" not in documented] == []
    text = http.get("/v1/metrics", params={"format": "prometheus"}).text
    forms = re.findall(r"^# TYPE (\w+) ", text, re.M)
    assert [form for form in forms if f"`{form}" not in documented] == []


def test_full_disk_is_answered_with_503_and_the_reason(rig: ServerRig, http: httpx.Client) -> None:
    space, body = rig.server.state.space, {"Job": job(new_id())}
    space.lacks(STATE, DiskFullError("cannot write: the disk of /data is full (3 MB free)"))
    refused = http.put("/v1/jobs", json=body)
    assert http.get("/v1/jobs").status_code == 200
    assert "orchgit_disk_full 1.0" in http.get("/v1/metrics?format=prometheus").text
    space.suffices(STATE)
    assert (refused.status_code, refused.text) == (
        503,
        "cannot write: the disk of /data is full (3 MB free)",
    )
    assert http.put("/v1/jobs", json=body).status_code == 200


def test_no_answer_contains_a_nodes_secret(rig: ServerRig, http: httpx.Client) -> None:
    node = make_node(secret_id="5ec7e700-0000-4000-8000-000000000001")
    rig.run(register_node(rig.server.services.context, node))
    for path in ("/v1/nodes?resources=true", f"/v1/node/{node.id}", "/v1/metrics"):
        assert node.secret_id not in http.get(path).text
    leaked = http.get("/v1/nodes", params={"filter": f'SecretID == "{node.secret_id}"'})
    assert leaked.json() == []
    rig.run(purge_node(rig.server.services.context, node.id))


async def _place(context: UseCaseContext, job_id: str, count: int) -> list[str]:
    node = await ready_node(context)
    await placed_job(context, make_job(id=job_id, count=count), [node] * count)
    with context.snapshot() as snapshot:
        return [each.id for each in snapshot.allocations.of_job("default", job_id)]


@pytest.mark.parametrize("path", ["/v1/evaluations", "/v1/jobs/statuses"])
@pytest.mark.parametrize("extra", [{}, {"reverse": "true"}])
def test_pages_hold_what_the_whole_list_does(
    rig: ServerRig, http: httpx.Client, path: str, extra: dict[str, str]
) -> None:
    for _ in range(5):
        rig.register(job(new_id("paged")))
    whole = http.get(path, params=extra).json()
    found: list[Any] = []
    params: dict[str, Any] = {"per_page": max(2, len(whole) // 3), **extra}
    while True:
        answer = http.get(path, params=params)
        found += answer.json()
        if "x-nomad-nexttoken" not in answer.headers:
            break
        params["next_token"] = answer.headers["x-nomad-nexttoken"]
    assert found == whole
    assert len(whole) >= 5


def test_pages_of_allocations_hold_every_one_once(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id("many")
    placed = rig.run(_place(rig.server.services.context, job_id, 5))
    whole = [each["ID"] for each in http.get("/v1/allocations").json()]
    for extra in ({}, {"filter": f'JobID == "{job_id}"'}, {"reverse": "true"}):
        found: list[str] = []
        params: dict[str, Any] = {"per_page": 2, **extra}
        while True:
            answer = http.get("/v1/allocations", params=params)
            found += [each["ID"] for each in answer.json()]
            if "x-nomad-nexttoken" not in answer.headers:
                break
            params["next_token"] = answer.headers["x-nomad-nexttoken"]
        assert set(placed) <= set(found)
        in_order = [each for each in whole if each in found]
        assert found == (in_order[::-1] if "reverse" in extra else in_order)
        assert len(found) == len(set(found))


def test_first_of_repeated_parameters_counts(rig: ServerRig, http: httpx.Client) -> None:
    job_id = new_id()
    rig.register(job(job_id))
    path = f"/v1/job/{job_id}"
    assert http.get(f"{path}?namespace=default&namespace=none").status_code == 200
    assert http.get(f"{path}?namespace=none&namespace=default").status_code == 404
    for text, count in (("per_page=1&per_page=0", 1), ("prefix=none&prefix=", 0)):
        assert len(http.get(f"/v1/jobs?{text}").json()) == count


@pytest.mark.parametrize(
    ("path", "lookup"),
    [
        ("allocation", "alloc"),
        ("evaluation", "eval"),
        ("deployment", "deployment"),
        ("node", "node"),
    ],
)
def test_beginning_of_an_id_is_no_id(http: httpx.Client, path: str, lookup: str) -> None:
    answer = http.get(f"/v1/{path}/12345678")
    text = f"{lookup} lookup failed: index error: UUID must be 36 characters"
    assert (answer.status_code, answer.text) == (500, text)


def test_list_of_csi_volumes_has_no_index_before_the_first_volume(http: httpx.Client) -> None:
    for query in ("type=csi", "type=csi&namespace=*", "type=csi&prefix=v"):
        answer = http.get(f"/v1/volumes?{query}")
        assert (answer.json(), answer.headers["x-nomad-index"]) == ([], "0")
    assert http.get("/v1/volumes?type=host").headers["x-nomad-index"] != "0"


def test_plan_shows_the_stored_scaling_policy_only_with_diff(
    rig: ServerRig, http: httpx.Client
) -> None:
    job_id = new_id()
    scaled = job(job_id, Type="service")
    scaled["TaskGroups"][0]["Scaling"] = {"Min": 1, "Max": 5}
    rig.register(scaled)
    diff = http.put(f"/v1/job/{job_id}/plan", json={"Job": scaled, "Diff": True}).json()["Diff"]
    assert [each["Name"] for each in diff["TaskGroups"][0]["Objects"]] == ["Scaling"]
    plan = http.put(f"/v1/job/{job_id}/plan", json={"Job": scaled}).json()
    assert plan["Diff"] is None
    read = http.get(f"/v1/job/{job_id}").json()
    plan = http.put(f"/v1/job/{job_id}/plan", json={"Job": read, "Diff": True}).json()
    assert plan["Diff"]["Type"] == "None"
    assert http.get(f"/v1/job/{job_id}/versions?diffs=true").json()["Diffs"] == []


def test_registered_volume_is_answered_as_it_was_asked_for(
    rig: ServerRig, http: httpx.Client
) -> None:
    node = make_node(id=str(uuid.uuid4()))
    rig.run(register_node(rig.server.services.context, node))
    asked = {"Name": new_id("volume"), "NodeID": node.id, "HostPath": "/srv/data"}
    for more in ({}, {"nodepool": "default", "PluginID": "mkdir"}):
        answer = http.put("/v1/volume/host/register", json={"Volume": {**asked, **more}})
        found = answer.json()["Volume"]
        wanted = ("default", "mkdir") if more else ("", "")
        assert (found["NodePool"], found["PluginID"], found["State"]) == (*wanted, "pending")
        http.delete(f"/v1/volume/host/{found['ID']}/delete")


def test_statuses_of_named_jobs_are_of_the_namespace_that_they_have(
    rig: ServerRig, http: httpx.Client
) -> None:
    other, parent = new_id("ns"), new_id()
    assert http.put(f"/v1/namespace/{other}", json={"Name": other}).status_code == 200
    rig.register(job(parent, Type="batch", ParameterizedJob={"Payload": "optional"}))
    answer = http.put(f"/v1/job/{parent}/dispatch", json={}).json()
    child, elsewhere = answer["DispatchedJobID"], new_id()
    rig.register(job(elsewhere, Namespace=other))
    both = [{"id": parent}, {"id": elsewhere, "namespace": other}]

    def asked(query: str, **body: Any) -> list[str]:
        found = http.post(f"/v1/jobs/statuses{query}", json=body)
        assert found.status_code == 200, found.text
        return [each["ID"] for each in found.json()]

    assert asked("", jobs=both) == [elsewhere, parent]
    assert asked("?namespace=nope", jobs=both) == []
    assert asked("?namespace=nope", jobs=both[:1]) == [parent]
    assert asked("", jobs=[{"id": "none", "namespace": "nope"}]) == []
    named = [{"id": child}, {"id": parent}]
    assert asked("", jobs=named) == [parent]
    assert asked("?include_children=true", jobs=named) == [child, parent]
    assert asked("", jobs=named, includeChildren=True) == [child, parent]
    whole = http.post("/v1/jobs/statuses?namespace=*").json()
    assert {parent, elsewhere} <= {each["ID"] for each in whole}
    for body, said in (
        (b'{"jobs": []}', "no jobs in request"),
        (b"{malformed", "error decoding request: invalid character 'm'"),
    ):
        refused = http.post("/v1/jobs/statuses", content=body)
        assert (refused.status_code, refused.text.startswith(said)) == (400, True), refused.text


def test_parent_of_jobs_has_a_list_of_children_and_nothing_of_its_own(
    rig: ServerRig, http: httpx.Client
) -> None:
    parent = new_id()
    rig.register(job(parent, Type="batch", ParameterizedJob={"Payload": "optional"}))
    (found,) = http.post("/v1/jobs/statuses", json={"Jobs": [{"ID": parent}]}).json()
    assert (found["ChildStatuses"], found["Allocs"], found["LatestDeployment"]) == ([], None, None)
