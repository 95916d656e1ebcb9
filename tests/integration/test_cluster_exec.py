"""`alloc exec` at any server of a cluster: the agent of the allocation answers, wherever it is."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.test_cluster_failover import running, sleeper
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster
from tests.support.websocket import websocket


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    """Each server has an agent beside it, and each of those an allocation."""
    directory = tmp_path_factory.mktemp("cluster")
    with server_cluster(directory, agents=True, num_schedulers=1) as found:
        leader = found.leader()
        until_blocking(lambda: len(ready(leader)) == 3 or None)
        leader.put("/v1/jobs", {"Job": {**sleeper("web"), "Type": "system"}})
        until_blocking(lambda: len(running(leader, "web")) == 3 or None)
        yield found
        leader.http.delete("/v1/job/web", params={"purge": "true"})
        until_blocking(lambda: not running(leader, "web") or None)


def ready(member: MemberServer) -> list[Any]:
    return [node for node in member.get("/v1/nodes") if node["Status"] == "ready"]


def executed(member: MemberServer, alloc_id: str, *say: dict[str, Any]) -> tuple[list[Any], int]:
    command = json.dumps(["/bin/sh", "-c", "read x; echo $x-$NOMAD_ALLOC_ID; exit 7"])
    path = f"/v1/client/allocation/{alloc_id}/exec"
    target = str(httpx.URL(path, params={"command": command, "task": "task"}))
    port = int(member.url.rpartition(":")[2])
    return asyncio.run(asyncio.wait_for(websocket(port, target, list(say)), 30))


def test_command_is_run_through_every_server(cluster: ServerCluster) -> None:
    stdin = {"stdin": {"data": base64.b64encode(b"hello\n").decode()}}
    for alloc in running(cluster.members[0], "web"):
        for member in cluster.members:
            frames, code = executed(member, alloc["ID"], stdin)
            parts = [each["stdout"].get("data", "") for each in frames if "stdout" in each]
            said = b"".join(map(base64.b64decode, parts))
            assert said == f"hello-{alloc['ID']}\n".encode()
            assert frames[-1] == {"exited": True, "result": {"exit_code": 7}}
            assert code == 1000


def test_agents_refusal_is_forwarded_by_every_server(cluster: ServerCluster) -> None:
    alloc_id = running(cluster.members[0], "web")[0]["ID"]
    for member in cluster.members:
        port = int(member.url.rpartition(":")[2])
        path = f"/v1/client/allocation/{alloc_id}/exec?command=%5B%22true%22%5D&task=zz"
        assert asyncio.run(websocket(port, path, [])) == ([], 1008)


def test_unknown_allocation_is_refused_with_a_reason(cluster: ServerCluster) -> None:
    for member in cluster.members:
        assert executed(member, "00000000-0000-4000-8000-000000000009") == ([], 1011)
