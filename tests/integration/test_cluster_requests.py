"""Any server of a cluster answers any request: here, or by the leader."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.git_repos import WorkTree, batch_job
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with server_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_all_servers_give_the_same_cluster_answers(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    for member in cluster.members:
        assert member.get("/v1/status/leader") == leader.rpc
        assert sorted(member.get("/v1/status/peers")) == sorted(cluster.rpc_addresses())
        found = member.get("/v1/agent/members")
        assert found["ServerName"] == f"server-{member.number}"
        names = sorted(each["Name"] for each in found["Members"])
        assert names == ["server-0.global", "server-1.global", "server-2.global"]
        servers = member.get("/v1/operator/raft/configuration")["Servers"]
        assert [each["Address"] for each in servers if each["Leader"]] == [leader.raft]
        assert member.get("/v1/agent/self")["member"]["Name"] == f"server-{member.number}.global"


def test_write_through_a_follower_is_read_on_every_server(cluster: ServerCluster) -> None:
    for member in cluster.members:
        namespace = {"Name": f"by-{member.number}"}
        member.put("/v1/namespace", namespace)
        for reader in cluster.members:
            answer = reader.http.get(f"/v1/namespace/by-{member.number}")
            assert answer.status_code == 200, answer.text
            assert answer.headers["X-Nomad-KnownLeader"] == "true"
            assert answer.headers["X-Nomad-LastContact"] == "0"
            assert int(answer.headers["X-Nomad-Index"]) > 1


@pytest.mark.parametrize("mode", ["stale", "consistent"])
def test_reads_carry_their_index_and_last_contact(cluster: ServerCluster, mode: str) -> None:
    for member in cluster.members:
        answer = member.http.get("/v1/jobs", params={mode: ""})
        assert answer.status_code == 200
        assert answer.headers["X-Nomad-KnownLeader"] == "true"
        assert int(answer.headers["X-Nomad-LastContact"]) < 1000


def test_blocking_query_on_a_follower_is_woken_by_a_write(cluster: ServerCluster) -> None:
    follower, other = cluster.followers()
    index = int(follower.http.get("/v1/namespaces").headers["X-Nomad-Index"])
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            follower.http.get(
                "/v1/namespaces", params={"index": index, "wait": "5m"}, timeout=400.0
            )
        )
    )
    asking.start()
    other.put("/v1/namespace", {"Name": "woken"})
    asking.join(100)  # far less than its wait time
    assert answers, "the write woke nobody"
    assert "woken" in [each["Name"] for each in answers[0].json()]
    assert int(answers[0].headers["X-Nomad-Index"]) > index


def test_event_stream_of_a_follower_is_live(cluster: ServerCluster) -> None:
    follower, other = cluster.followers()
    with follower.http.stream("GET", "/v1/event/stream?topic=Job") as stream:
        assert stream.status_code == 200
        other.put("/v1/jobs", {"Job": a_job("streamed")})
        for line in stream.iter_lines():
            if "streamed" in line:
                break
        else:
            pytest.fail("the stream ended")


def test_variable_conflict_returns_the_current_variable(cluster: ServerCluster) -> None:
    for member in cluster.members:
        path = f"/v1/var/conflict/{member.number}"
        stored = member.put(path, {"Items": {"n": "1"}}, cas=0)
        refused = member.http.put(path, json={"Items": {"n": "2"}}, params={"cas": 0})
        assert (refused.status_code, refused.json()) == (409, stored)


def test_leader_errors_are_forwarded_unchanged(cluster: ServerCluster) -> None:
    for member in cluster.members:
        missing = member.http.get("/v1/job/nothing-here")
        assert (missing.status_code, missing.text) == (404, "job not found")
        broken = member.http.put("/v1/jobs", content=b"{")
        assert broken.status_code == 400
        assert member.http.patch("/v1/jobs").status_code == 405


def test_large_body_is_forwarded_in_both_directions(cluster: ServerCluster) -> None:
    [follower, _] = cluster.followers()
    job = a_job("large")
    job["Meta"] = {f"k{n}": "x" * 1000 for n in range(5000)}

    def registered() -> bool:
        """A busy machine may cost the leader its lead meanwhile: then that is what is said."""
        answer = follower.http.put("/v1/jobs", json={"Job": job})
        assert answer.status_code == 200 or "leadership changed" in answer.text, answer.text
        return answer.status_code == 200

    until_blocking(registered)
    found = follower.get("/v1/job/large")
    assert found["Meta"] == job["Meta"]


def test_requests_about_a_server_are_answered_by_that_server(cluster: ServerCluster) -> None:
    for member in cluster.members:
        assert member.get("/v1/agent/self")["config"]["NodeName"] == f"server-{member.number}"
        assert member.get("/v1/agent/health")["server"]["ok"]
        raft = member.get("/v1/agent/self")["stats"]["raft"]
        assert raft["state"] == ("Leader" if member is cluster.leader() else "Follower")


def test_profile_host_and_log_of_a_server_are_had_through_any_other(
    cluster: ServerCluster,
) -> None:
    own = {each.number: each.http.get("/v1/agent/pprof/cmdline").text for each in cluster.members}
    assert len(set(own.values())) == 3
    ids = {
        each["Name"]: each["Tags"]["id"]
        for each in cluster.members[0].get("/v1/agent/members")["Members"]
    }
    for asked in cluster.members:
        for meant in cluster.members:
            name = f"server-{meant.number}"
            for named in (name, f"{name}.global", ids[f"{name}.global"]):
                answer = asked.http.get("/v1/agent/pprof/cmdline", params={"server_id": named})
                assert (answer.status_code, answer.text) == (200, own[meant.number])
        leading = asked.http.get("/v1/agent/pprof/cmdline", params={"server_id": "leader"})
        assert leading.text == own[cluster.leader().number]
        unknown = asked.http.get("/v1/agent/host", params={"server_id": "server-9"})
        assert (unknown.status_code, "server-9" in unknown.text) == (500, True)
    asked, meant = cluster.followers()
    params = {"server_id": f"server-{meant.number}", "log_level": "TRACE"}
    with asked.http.stream("GET", "/v1/agent/monitor", params=params, timeout=60.0) as log:
        assert log.status_code == 200
        assert next(log.iter_bytes())


def test_disconnected_client_ends_its_query_at_the_leader(cluster: ServerCluster) -> None:
    leader, follower = cluster.leader(), cluster.followers()[0]

    def waiting() -> int:
        text = leader.http.get("/v1/metrics", params={"format": "prometheus"}).text
        found = re.search(r"^nomad_rpc_forwarded_in_flight(?:{[^}]*})? (\d+)", text, re.MULTILINE)
        assert found, text
        return int(float(found[1]))

    until_blocking(lambda: waiting() == 0 or None)
    host, _, port = follower.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(b"GET /v1/nodes?index=1000000&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until_blocking(lambda: waiting() == 1 or None)
    until_blocking(lambda: waiting() == 0 or None)


def a_job(job_id: str) -> dict[str, Any]:
    return {
        "ID": job_id,
        "Name": job_id,
        "Type": "service",
        "Datacenters": ["dc1"],
        "TaskGroups": [
            {
                "Name": "group",
                "Count": 1,
                "Tasks": [{"Name": "task", "Driver": "raw_exec", "Config": {"command": "true"}}],
            }
        ],
    }


def test_push_and_clone_through_a_follower_succeed(cluster: ServerCluster, tmp_path: Path) -> None:
    follower, other = cluster.followers()
    follower.put("/v1/gitops/source/demo", {"Name": "demo", "Kind": "builtin"})
    work = WorkTree(tmp_path / "work")
    commit = work.commit(
        {"web.hcl": batch_job("web"), "big.txt": "".join(f"{n}\n" for n in range(400_000))}
    )
    pushed = asyncio.run(work.run("push", "-o", "detach", f"{follower.url}/git/demo.git", "main"))
    assert pushed.returncode == 0, pushed.output
    assert "remote: Plan for" in pushed.output
    assert other.get("/v1/job/web")["ID"] == "web"
    for member in cluster.members:
        clone = asyncio.run(
            work.run("clone", "-q", f"{member.url}/git/demo.git", f"clone-{member.number}")
        )
        assert clone.returncode == 0, clone.output
        assert WorkTree(work.path / f"clone-{member.number}").git("rev-parse", "HEAD") == commit


def test_leadership_transfer_fails_no_request(cluster: ServerCluster) -> None:
    """Writes by every server, one after the other, while the lead changes."""
    leader = cluster.leader()
    over = threading.Event()
    failures: list[str] = []
    written: list[int] = []

    def write(member: MemberServer) -> None:
        while not over.is_set():
            path = f"/v1/var/handed/{member.number}/{len(written)}"
            answer = member.http.put(path, json={"Items": {"a": "b"}})
            written.append(answer.status_code)
            if answer.status_code != 200:
                failures.append(answer.text)

    writers = [threading.Thread(target=write, args=[member]) for member in cluster.members]
    for writer in writers:
        writer.start()
    until_blocking(lambda: len(written) > 30 or None)
    heir = next(one for one in cluster.members if one is not leader)
    heir.put("/v1/operator/raft/transfer-leadership", address=heir.raft)
    until_blocking(lambda: cluster.leader() is heir or None)
    seen = len(written)
    until_blocking(lambda: len(written) > seen + 30 or None)
    over.set()
    for writer in writers:
        writer.join()
    assert failures == []
