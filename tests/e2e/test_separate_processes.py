"""A server and a client as processes of their own, each killed while the other goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Repository
from tests.support.dev_server import ApiUser, OrchgitProcess, end_tasks
from tests.support.job_texts import sleeper
from tests.support.ports import free_ports


class Cluster(ApiUser):
    """One server and one client, with a data directory each."""

    def __init__(self, directory: Path) -> None:
        http, rpc = free_ports(2)
        self.address = f"http://127.0.0.1:{http}"
        directory.mkdir(exist_ok=True)
        self.rpc = f"127.0.0.1:{rpc}"
        self.client_dir, self.server_dir = directory / "client", directory / "server"
        self.server = OrchgitProcess(
            *("agent", "-server", "-data-dir", str(self.server_dir)),
            *("-http-port", str(http), "-rpc-port", str(rpc), "-serf-port", "0"),
            ready="agent started",
        )
        config = directory / "client.hcl"
        config.write_text('plugin "raw_exec" {\n  config {\n    enabled = true\n  }\n}\n')
        self.client = OrchgitProcess(
            *("agent", "-client", "-config", str(config), "-data-dir", str(self.client_dir)),
            *("-http-port", "0", "-servers", self.rpc),
            ready="agent started",
        )

    def start(self) -> None:
        self.server.start()
        self.client.start()
        self.wait_for_node()

    def wait_for_node(self) -> None:
        self.wait_for("/v1/nodes", lambda nodes: [each["Status"] for each in nodes] == ["ready"])

    def end(self) -> None:
        for process in (self.client, self.server):
            if process.is_running:
                process.kill9()
        end_tasks(self.client_dir)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Repository:
    repository = Repository(cluster, "apart", tmp_path)
    repository.write("job.nomad.hcl", sleeper("apart", count=2))
    repository.commit("Two tasks")
    assert "Healthy after" in repository.push()
    return repository


def test_killed_agent_recovers_its_tasks(cluster: Cluster, running: Repository) -> None:
    pids = {
        each["ID"]: cluster.task_pids(each["ID"])
        for each in cluster.running_allocations("apart", 2)
    }
    cluster.client.kill9()
    assert {each: cluster.task_pids(each) for each in pids} == pids
    cluster.client.start()
    cluster.wait_for_node()
    running.write("job.nomad.hcl", sleeper("apart", count=2, version="2"))
    running.commit("Two again")
    assert "Healthy after" in running.push()
    assert all(not cluster.task_pids(each) for each in pids)
    assert len(cluster.running_allocations("apart", 2)) == 2


def test_killed_server_recovers_its_node_and_tasks(cluster: Cluster, running: Repository) -> None:
    before = cluster.running_allocations("apart", 2)
    pids = {each["ID"]: cluster.task_pids(each["ID"]) for each in before}
    cluster.server.kill9()
    cluster.server.start()
    cluster.wait_for_node()
    after = cluster.running_allocations("apart", 2)
    assert {each["ID"] for each in after} == set(pids)
    assert {each: cluster.task_pids(each) for each in pids} == pids


def test_task_that_ends_while_the_server_is_dead_is_replaced(
    cluster: Cluster, running: Repository
) -> None:
    [first, second] = cluster.running_allocations("apart", 2)
    cluster.server.kill9()
    for pid in cluster.task_pids(first["ID"]):
        os.kill(pid, signal.SIGKILL)
    cluster.server.start()
    found = cluster.wait_for(
        f"/v1/allocation/{first['ID']}", lambda data: data["ClientStatus"] == "failed"
    )
    assert found["TaskStates"]["main"]["State"] == "dead"
    assert cluster.get(f"/v1/allocation/{second['ID']}")["ClientStatus"] == "running"


def test_logs_are_read_through_the_server(cluster: Cluster, running: Repository) -> None:
    assert running.name == "apart"
    [alloc, _] = cluster.running_allocations("apart", 2)
    shown = cluster.cli("alloc", "logs", alloc["ID"][:8])
    assert (shown.code, shown.out) == (0, "version 1\n"), shown.text
