"""An agent meets a server of another cluster: by accident, and on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Repository
from tests.e2e.test_separate_processes import Cluster
from tests.support.dev_server import Done, OrchgitProcess, end_tasks
from tests.support.job_texts import sleeper
from tests.support.lost_disk import lose
from tests.support.polling import until_blocking
from tests.support.runbook import Runbook

pytestmark = pytest.mark.long

TOLD_S = 30.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With a job of one task."""
    made = Cluster(tmp_path)
    try:
        made.start()
        repository = Repository(made, "apart", tmp_path)
        repository.write("job.nomad.hcl", sleeper("apart"))
        repository.commit("One task")
        assert "Healthy after" in repository.push()
        yield made
    finally:
        made.end()


def test_agents_ignore_a_server_that_lost_its_data_and_bootstrapped_anew(
    cluster: Cluster,
) -> None:
    [alloc] = cluster.running_allocations("apart")
    pids = cluster.task_pids(alloc["ID"])
    cluster.server.kill9()
    lose(cluster.server_dir)
    cluster.server.start()
    until_blocking(lambda: "this server is of another cluster" in cluster.client.output, TOLD_S)
    cluster.client.kill9()
    cluster.client.start()
    until_blocking(
        lambda: cluster.client.output.count("this server is of another cluster") == 2, TOLD_S
    )
    assert cluster.get("/v1/nodes") == []
    assert cluster.task_pids(alloc["ID"]) == pids != []


def test_restored_backup_brings_the_cluster_back(cluster: Cluster, tmp_path: Path) -> None:
    """Onto a server that lost everything but its key: its agent knows it again, with its tasks."""
    [alloc] = cluster.running_allocations("apart")
    pids = cluster.task_pids(alloc["ID"])
    backup, key = str(tmp_path / "backup.snap"), cluster.server_dir / "server/keyring/cluster.key"
    assert cluster.cli("operator", "snapshot", "save", backup).code == 0
    kept = key.read_bytes()
    cluster.server.kill9()
    lose(cluster.server_dir)
    key.parent.mkdir(parents=True)
    key.touch(mode=0o600)
    key.write_bytes(kept)
    cluster.server.start()
    until_blocking(lambda: "this server is of another cluster" in cluster.client.output, TOLD_S)
    assert cluster.cli("operator", "snapshot", "restore", "-yes", backup).code == 0
    cluster.wait_for_node()
    assert [each["ID"] for each in cluster.running_allocations("apart")] == [alloc["ID"]]
    assert cluster.task_pids(alloc["ID"]) == pids != []


def test_agent_moved_by_the_runbook_runs_at_the_new_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    book = Runbook.read("Move an agent to another cluster")
    target = Cluster(tmp_path / "other")
    client_dir = cluster.client_dir

    def run(at: Cluster, step: int) -> Done:
        [node] = cluster.get("/v1/nodes")
        words = book.command(step).replace("NODE", node["ID"])
        done = at.cli(*words.replace("/var/lib/orchgit", str(client_dir)).split()[1:])
        assert done.code == 0, done.text
        return done

    try:
        target.server.start()
        run(cluster, 1)
        cluster.running_allocations("apart", 0)
        assert cluster.client.stop() == 0
        run(cluster, 2)
        for name in ("client", "alloc"):
            shutil.rmtree(client_dir / name)
        arguments = [each.replace(cluster.rpc, target.rpc) for each in cluster.client.arguments]
        moved = target.client = OrchgitProcess(*arguments, ready="agent started")
        moved.start()
        target.wait_for_node()
        assert "ready" in run(target, 4).out
        assert "another cluster" not in moved.output
        run(cluster, 5)
        assert not book.left
    finally:
        target.end()
        end_tasks(client_dir)
