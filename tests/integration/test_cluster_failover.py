"""The leader is lost in the middle of everything: what it did in memory is done anew by the next.

Each test has a cluster of its own, with an agent in a process of its own, and kills the leader (or
stops it, or cuts it off) at a moment that matters.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchgit.cli.commands.dev import end_tasks
from tests.support.crowding import crowding
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster

HEARTBEAT_S = 2.0


@contextlib.contextmanager
def agent_process(directory: Path, cluster: ServerCluster) -> Iterator[None]:
    arguments = [str(directory), ",".join(cluster.rpc_addresses())]
    with (directory.parent / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.agent_process", *arguments],
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()
        asyncio.run(end_tasks(directory))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with server_cluster(tmp_path, num_schedulers=1, heartbeat_s=HEARTBEAT_S) as running:
        with agent_process(tmp_path / "agent", running):
            until_blocking(lambda: nodes(running, "ready") or None)
            yield running


def nodes(cluster: ServerCluster, status: str) -> list[dict[str, Any]]:
    found = cluster.alive[0].get("/v1/nodes")
    return [node for node in found if node["Status"] == status]


def sleeper(job_id: str, count: int = 1, **update: Any) -> dict[str, Any]:
    task = {
        "Name": "task",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sleep", "args": ["1000"]},
        "Resources": {"CPU": 10, "MemoryMB": 10},
    }
    group = {"Name": "group", "Count": count, "Tasks": [task]}
    job = {"ID": job_id, "Name": job_id, "Type": "service", "Datacenters": ["dc1"]}
    return {**job, "TaskGroups": [{**group, **({"Update": update} if update else {})}]}


def running(member: MemberServer, job_id: str) -> list[dict[str, Any]]:
    allocs = member.get(f"/v1/job/{job_id}/allocations")
    return [each for each in allocs if each["ClientStatus"] == "running"]


def test_agent_and_workers_find_the_next_leader(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    killed_s = time.monotonic()
    leader.kill()
    other = cluster.alive[0]
    # A server that has not noticed yet that the leader is gone cannot tell what became of a write.
    until_blocking(
        lambda: other.http.put("/v1/jobs", json={"Job": sleeper("after")}).status_code == 200
    )
    written_s = time.monotonic() - killed_s
    until_blocking(lambda: running(other, "after") or None)
    placed_s = time.monotonic() - killed_s
    print(f"written {written_s:.2f} s, running {placed_s:.2f} s after the kill")
    assert written_s < 5 * crowding()
    until_blocking(lambda: nodes(cluster, "ready") or None)  # it may have missed a heartbeat


def test_cluster_elects_another_leader_when_the_leader_stops_answering(
    cluster: ServerCluster,
) -> None:
    leader = cluster.leader()
    others = [one for one in cluster.members if one is not leader]
    leader.signal(signal.SIGSTOP)
    stopped_s = time.monotonic()
    lost = others[0].http.put("/v1/jobs", json={"Job": sleeper("lost")})
    told_s = time.monotonic() - stopped_s
    assert lost.status_code == 200 or "cannot tell" in lost.text
    others[0].put("/v1/jobs", {"Job": sleeper("after")})
    until_blocking(lambda: running(others[1], "after") or None)
    print(f"told after {told_s:.2f} s, running {time.monotonic() - stopped_s:.2f} s after the stop")
    assert told_s < 6 * crowding()
    leader.signal(signal.SIGCONT)
    until_blocking(lambda: running(leader, "after") or None)
