"""The leader is killed in the middle of everything; the next finds all of it in the state.

One cluster, with simulated nodes: each thing is begun, the leader is killed, then each test looks
how one of them went on.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repos import WorkTree, batch_job
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster

NODES = 4
LOCK = {"Items": {}, "Lock": {"TTL": "10s"}}
HALF_OF_A_NODE_MB = 5000


@dataclass
class Begun:
    """What was under way when the leader was killed."""

    cluster: ServerCluster
    work: WorkTree
    drained: str = ""
    renewed: int = 0
    lock: dict[str, Any] = field(default_factory=dict)
    launches: int = 0
    killed_s: float = 0.0

    @property
    def http(self) -> MemberServer:
        return self.cluster.alive[0]

    def allocs(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.http.get(f"/v1/job/{job_id}/allocations"))

    def running(self, job_id: str) -> list[dict[str, Any]]:
        return [each for each in self.allocs(job_id) if each["ClientStatus"] == "running"]

    def register(self, job_id: str, **fields: Any) -> None:
        self.http.put("/v1/jobs", {"Job": a_job(job_id, **fields)})


def a_job(job_id: str, count: int = 1, memory_mb: int = 10, **fields: Any) -> dict[str, Any]:
    group_fields = fields.pop("group", {})
    task = {
        "Name": "task",
        "Driver": "mock_driver",
        "Config": fields.pop("config", {}),
        "Resources": {"CPU": 10, "MemoryMB": memory_mb},
    }
    group = {"Name": "group", "Count": count, "Tasks": [task], **group_fields}
    job = {"ID": job_id, "Name": job_id, "Type": "service", "Datacenters": ["dc1"]}
    return {**job, "TaskGroups": [group], **fields}


@contextlib.contextmanager
def simulated_nodes(directory: Path, cluster: ServerCluster) -> Iterator[None]:
    servers = ",".join(cluster.rpc_addresses())
    with (directory / "nodes.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent.simulated", "--servers", servers, "--nodes", str(NODES)],
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begun]:
    directory = tmp_path_factory.mktemp("takeover")
    with (
        server_cluster(
            directory, num_schedulers=1, heartbeat_s=2.0, local_paths=[str(directory)]
        ) as cluster,
        simulated_nodes(directory, cluster),
    ):
        found = Begun(cluster, WorkTree(directory / "work"))
        until_blocking(lambda: len(nodes(found, "ready")) == NODES or None)
        begin_everything(found)
        cluster.leader().kill()
        found.killed_s = time.monotonic()
        found.renewed = renewal(found)
        yield found


def nodes(begun: Begun, status: str) -> list[dict[str, Any]]:
    return [each for each in begun.http.get("/v1/nodes") if each["Status"] == status]


def begin_everything(begun: Begun) -> None:
    """What takes longest comes last, so that all is in the middle when this returns."""
    begin_following(begun)
    every = {"Enabled": True, "SpecType": "cron", "Spec": "* * * * * * *"}
    begun.register("every", Type="batch", Periodic=every, config={"run_for": "1ms"})
    begin_blocked(begun)
    settle_services(begun)
    begin_again(begun)
    begin_draining(begun)
    begin_rolling(begun)
    begun.launches = until_blocking(lambda: len(launches(begun)) or None)
    # Held for ten seconds only, which the rest can take on a busy machine.
    begun.lock = begun.http.put("/v1/var/lock", LOCK, **{"lock-acquire": ""})


def begin_following(begun: Begun) -> None:
    begun.work.commit({"first.hcl": batch_job("first")})
    source = {"Name": "followed", "Kind": "remote", "URL": f"file://{begun.work.path}"}
    begun.http.put("/v1/gitops/source/followed", {**source, "PollInterval": 10**9})
    until_blocking(lambda: begun.http.http.get("/v1/job/first").status_code == 200 or None)


def begin_blocked(begun: Begun) -> None:
    """Two fit on a node; one more than there is room for waits."""
    begun.register("hog", count=NODES, memory_mb=HALF_OF_A_NODE_MB)
    until_blocking(lambda: len(begun.running("hog")) == NODES or None)
    begun.register("waiting", memory_mb=HALF_OF_A_NODE_MB)
    until_blocking(lambda: "blocked" in evaluations(begun, "waiting") or None)


def evaluations(begun: Begun, job_id: str) -> list[str]:
    return [each["Status"] for each in begun.http.get(f"/v1/job/{job_id}/evaluations")]


def begin_again(begun: Begun) -> None:
    """Fails at once; another try is due in some seconds."""
    policy = {
        "Attempts": 0,
        "Delay": 5 * 10**9,
        "DelayFunction": "constant",
        "Interval": 0,
        "Unlimited": True,
    }
    restart = {"Attempts": 0, "Mode": "fail"}
    begun.register(
        "again",
        Type="batch",
        config={"run_for": "1ms", "exit_code": 1},
        group={"ReschedulePolicy": policy, "RestartPolicy": restart},
    )
    until_blocking(
        lambda: "failed" in [each["ClientStatus"] for each in begun.allocs("again")] or None
    )
    until_blocking(lambda: "pending" in evaluations(begun, "again") or None)


def settle_services(begun: Begun) -> None:
    for job_id, count in (("moving", 3), ("rolling", 4)):
        begun.register(job_id, count=count, group={"Migrate": slowly(), "Update": slowly()})
    until_blocking(lambda: deployment(begun)["Status"] == "successful" or None)
    until_blocking(lambda: len(begun.running("moving")) == 3 or None)


def begin_draining(begun: Begun) -> None:
    """One allocation after the other, a second for each."""
    homes = [each["NodeID"] for each in begun.running("moving")]
    begun.drained = max(homes, key=homes.count)
    spec = {"DrainSpec": {"Deadline": 60 * 10**9}}
    begun.http.put(f"/v1/node/{begun.drained}/drain", spec)


def begin_rolling(begun: Begun) -> None:
    begun.register("rolling", count=4, group={"Update": slowly()}, Meta={"version": "2"})
    until_blocking(lambda: deployment(begun)["JobVersion"] == 1 or None)
    until_blocking(lambda: deployment(begun)["TaskGroups"]["group"]["PlacedAllocs"] or None)


def slowly() -> dict[str, Any]:
    return {"MaxParallel": 1, "MinHealthyTime": 10**9, "HealthCheck": "task_states"}


def deployment(begun: Begun) -> dict[str, Any]:
    return dict(begun.http.get("/v1/job/rolling/deployment") or {"Status": "", "JobVersion": -1})


def launches(begun: Begun) -> list[str]:
    found = begun.http.get("/v1/jobs", prefix="every/periodic-")
    return [each["ID"] for each in found]


# -- after the leader was killed -------------------------------------------------------------------


def test_new_leader_finishes_a_rolling_deployment(begun: Begun) -> None:
    until_blocking(lambda: deployment(begun)["Status"] == "successful" or None, 120)
    assert deployment(begun)["JobVersion"] == 1
    assert {each["JobVersion"] for each in begun.running("rolling")} == {1}
    assert len(begun.running("rolling")) == 4


def test_new_leader_places_blocked_allocations_when_capacity_appears(begun: Begun) -> None:
    until_blocking(lambda: begun.running("waiting") or release(begun))


def release(begun: Begun) -> None:
    begun.http.http.delete("/v1/job/hog")


def test_new_leader_delivers_a_delayed_evaluation_in_time(begun: Begun) -> None:
    before = len(begun.allocs("again"))
    until_blocking(lambda: len(begun.allocs("again")) > before or None)


def test_new_leader_marks_no_living_node_as_lost(begun: Begun) -> None:
    until_blocking(lambda: time.monotonic() - begun.killed_s > 6.0 or None)
    assert len(nodes(begun, "ready")) == NODES
    for node in begun.http.get("/v1/nodes"):
        events = begun.http.get(f"/v1/node/{node['ID']}")["Events"]
        assert not [each for each in events if "missed" in each["Message"].lower()]


def test_new_leader_launches_periodic_jobs(begun: Begun) -> None:
    count = len(launches(begun))
    until_blocking(lambda: len(launches(begun)) > count + 1 or None)


def test_new_leader_finishes_a_drain(begun: Begun) -> None:
    def moved() -> bool | None:
        left = [each for each in begun.running("moving") if each["NodeID"] == begun.drained]
        return True if not left and len(begun.running("moving")) == 3 else None

    until_blocking(moved, 120)
    until_blocking(lambda: not begun.http.get(f"/v1/node/{begun.drained}")["DrainStrategy"] or None)


def test_new_leader_follows_sources(begun: Begun) -> None:
    begun.work.commit({"second.hcl": batch_job("second")})
    until_blocking(lambda: begun.http.http.get("/v1/job/second").status_code == 200 or None)


def renewal(begun: Begun) -> int:
    """Asked for in the middle of the election; the status of the answer.

    A server that has not yet seen the killed leader's connection end sends the renewal there, and
    can only answer that nobody knows whether it was done: the holder asks again.
    """
    held = {"Path": "lock", "Lock": {"ID": begun.lock["Lock"]["ID"]}}

    def asked() -> int | None:
        answer = begun.http.http.put("/v1/var/lock", json=held, params={"lock-renew": ""})
        return None if "cannot tell whether this was done" in answer.text else answer.status_code

    return until_blocking(asked)


def test_new_leader_renews_a_lock_and_expires_it_without_renewal(begun: Begun) -> None:
    assert begun.renewed == 200
    until_blocking(lambda: "Lock" not in begun.http.get("/v1/var/lock") or None, 120)
    assert time.monotonic() - begun.killed_s > 9.0
