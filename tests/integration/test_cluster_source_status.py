"""The status of sources in a real cluster: lost nodes, vanished remotes, any server asked."""

from __future__ import annotations

import asyncio
import getpass
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repos import WorkTree, batch_job
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster

SERVICE = """job "spread" {
  group "main" {
    count = 3
    constraint {
      operator = "distinct_hosts"
    }
    update {
      min_healthy_time = "0s"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "run" {
      driver = "mock_driver"
      config {
        run_for = "24h"
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    settings = {"num_schedulers": 1, "heartbeat_s": 1.0, "failover_s": 5.0}
    with server_cluster(directory, agents=True, local_paths=[str(directory)], **settings) as made:
        yield made


@pytest.fixture(scope="module")
def directory(cluster: ServerCluster) -> Path:
    return cluster.members[0].directory.parent


def source(member: MemberServer, name: str, **params: Any) -> dict[str, Any]:
    return dict(member.get(f"/v1/gitops/source/{name}", **params))


def until_source(
    cluster: ServerCluster, name: str, accept: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Blocking queries at the leader, until the answer is accepted."""
    index, leader = 0, cluster.leader()

    def answer() -> dict[str, Any] | None:
        nonlocal index
        path = f"/v1/gitops/source/{name}"
        found = leader.http.get(path, params={"index": index, "wait": "1s"})
        if found.status_code != 200:
            return None
        index = int(found.headers["X-Nomad-Index"])
        return found.json() if accept(found.json()) else None

    return until_blocking(answer, 60.0)


def has_status(*statuses: str) -> Callable[[dict[str, Any]], bool]:
    return lambda answer: answer["Health"]["Status"] in statuses


def consistent(answer: dict[str, Any]) -> None:
    """Every number and status of one answer agrees with the others."""
    health, jobs = answer["Health"], answer["Health"]["Jobs"]
    assert jobs["Healthy"] + jobs["Progressing"] + jobs["Degraded"] == jobs["Total"]
    named = [each["Status"] for each in health["Reasons"]]
    assert health["Status"] == (named[0] if named else "healthy")
    assert ("degraded" in named) == (jobs["Degraded"] > 0)
    assert health["AppliedCommit"] == answer["Status"]["AppliedCommit"]
    assert health["RemoteCommit"] == answer["Check"]["RemoteCommit"]
    assert answer["Check"]["LastCheck"] == answer["Status"]["LastChecked"]


def cli(member: MemberServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchgit", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "ORCHGIT_ADDR": member.url},
    )


def metrics(member: MemberServer) -> str:
    return member.http.get("/v1/metrics", params={"format": "prometheus"}).text


def test_source_is_degraded_while_a_node_is_lost_and_healthy_again_after(
    cluster: ServerCluster, directory: Path
) -> None:
    name = "spread"
    leader = cluster.leader()
    leader.put(f"/v1/gitops/source/{name}", {"Name": name, "PollInterval": 10**9})
    until_blocking(lambda: len(leader.get("/v1/nodes")) == 3 or None, 60.0)
    assert source(leader, name)["Health"]["Status"] == "pending"
    work = WorkTree(directory / name)
    commit = work.commit({"a.hcl": SERVICE})
    asyncio.run(work.push(f"{leader.url}/git/{name}.git", "detach"))
    found = until_source(cluster, name, has_status("healthy"))
    consistent(found)
    assert found["Health"]["Jobs"] | {"Total": 1, "Healthy": 1} == found["Health"]["Jobs"]
    assert found["Health"]["AppliedCommit"] == found["Health"]["RemoteCommit"] == commit
    lost = cluster.followers()[0]
    lost.kill()
    found = until_source(cluster, name, has_status("degraded"))
    consistent(found)
    [reason, *_] = found["Health"]["Reasons"]
    assert (reason["JobID"], reason["Namespace"]) == ("spread", "default")
    assert reason["Text"].startswith("2/3 running")
    rollout = leader.get(f"/v1/gitops/rollout/{commit}")
    assert rollout["Status"] == "healthy", "what the commit came to stays true"
    leader = cluster.leader()
    series = {
        line.split()[0]: line.split()[1]
        for line in metrics(leader).splitlines()
        if f'source="{name}"' in line
    }
    health = f'orchgit_gitops_source_health{{source="{name}",status='
    assert (series[health + '"degraded"}'], series[health + '"healthy"}']) == ("1.0", "0.0")
    assert series[f'orchgit_gitops_source_degraded_jobs{{source="{name}"}}'] == "1.0"
    applied = f'orchgit_gitops_source_commit_to_applied_seconds_count{{source="{name}"}}'
    healthy = f'orchgit_gitops_source_time_to_healthy_seconds_count{{source="{name}"}}'
    assert (series[applied], series[healthy]) == ("1.0", "1.0")
    lost.start()
    consistent(until_source(cluster, name, has_status("healthy")))


def test_any_server_tells_what_the_leader_remembers_or_that_it_is_not_known(
    cluster: ServerCluster,
) -> None:
    leader = cluster.leader()
    leader.put("/v1/gitops/source/asked", {"Name": "asked", "PollInterval": 10**9})
    done = cli(leader, "source", "sync", "asked")
    assert (done.returncode, "no commit yet" in done.stdout) == (0, True), done.stderr
    told = source(leader, "asked")["Check"]
    assert told["Known"]
    assert told["LastCheck"] >= told["LastSuccess"] - 10**9 > 0
    for follower in cluster.followers():
        asked = source(follower, "asked")["Check"]
        assert asked["Known"]
        assert asked["LastCheck"] >= told["LastCheck"]
        alone = source(follower, "asked", stale="")
        consistent(alone)
        assert not alone["Check"]["Known"]
        assert (alone["Check"]["NextTry"], alone["Check"]["Failures"]) == (0, 0)
        assert "orchgit_gitops_source_health" not in metrics(follower)


def test_vanished_remote_is_unreachable_with_a_growing_back_off(
    cluster: ServerCluster, directory: Path
) -> None:
    work = WorkTree(directory / "far")
    commit = work.commit({"a.hcl": batch_job("far")})
    leader = cluster.leader()
    leader.put(
        "/v1/gitops/source/far",
        {"Name": "far", "Kind": "remote", "URL": f"file://{work.path}", "PollInterval": 10**9},
    )
    found = until_source(cluster, "far", has_status("healthy"))
    assert found["Health"]["RemoteCommit"] == commit
    gone = work.path.rename(work.path.with_name("gone"))
    first = until_source(cluster, "far", has_status("unreachable"))
    consistent(first)
    assert first["Health"]["RemoteCommit"] == ""
    assert first["Health"]["Jobs"]["Total"] == 1
    assert first["Check"]["Error"] == first["Status"]["LastError"] != ""

    def failed_often() -> dict[str, Any] | None:
        answer = source(cluster.leader(), "far")
        check = answer["Check"]
        return answer if check["Failures"] >= 3 and check["NextTry"] else None

    found = until_blocking(failed_often, 60.0)
    check = found["Check"]
    assert check["NextTry"] - check["LastCheck"] > 2 * 10**9, "longer than the poll interval"
    assert check["LastSuccess"] < check["ErrorSince"] < check["LastCheck"]
    shown = cli(cluster.leader(), "source", "status", "far").stdout
    assert "unreachable" in shown
    assert "failed checks in a row)" in shown
    synced = cli(cluster.leader(), "source", "sync", "far")
    assert (synced.returncode, "cannot" in synced.stderr) == (1, True), synced.stdout
    gone.rename(work.path)
    synced = cli(cluster.leader(), "source", "sync", "far")
    assert (synced.returncode, synced.stdout) == (
        0,
        f"Nothing new: commit {commit[:8]} is applied.\n",
    )
    found = source(cluster.leader(), "far")
    assert (found["Health"]["Status"], found["Check"]["Failures"]) == ("healthy", 0)
    assert found["Check"]["LastSuccess"] > check["LastSuccess"]


def test_status_tells_by_whom_and_why_a_source_is_paused(cluster: ServerCluster) -> None:
    follower = cluster.followers()[0]
    follower.put("/v1/gitops/source/still", {"Name": "still"})
    done = cli(
        follower, "source", "suspend", "still", "-reason", "the database moves", "-for", "2h"
    )
    assert done.returncode == 0, done.stderr
    found = source(follower, "still")
    assert found["Health"]["Status"] == "paused"
    who = os.environ.get("ORCHGIT_USER") or getpass.getuser()
    assert found["Health"]["Reasons"][0]["Text"].startswith(f"paused by {who} at ")
    assert found["Health"]["Reasons"][0]["Text"].endswith(": the database moves")
    shown = cli(follower, "source", "status", "still").stdout
    assert f"by {who} for another 1h59m: the database moves" in shown
    assert "paused" in cli(follower, "source", "list").stdout
    synced = cli(follower, "source", "sync", "still")
    assert (synced.returncode, f"is paused by {who}" in synced.stderr) == (1, True)
    assert cli(follower, "source", "rename", "still", "calm").returncode == 0
    renamed = source(follower, "calm")["Pause"]
    assert (renamed["By"], renamed["Reason"]) == (who, "the database moves")
    assert found["Pause"]["Until"] - 10**10 < renamed["Until"] < found["Pause"]["Until"] + 10**10
    assert cli(follower, "source", "resume", "calm").returncode == 0
    assert source(follower, "calm")["Health"]["Status"] == "pending"
    follower.put("/v1/gitops/source/calm/settings", {"Paused": True, "Pause": {"By": "forged"}})
    assert source(follower, "calm")["Pause"]["By"] == ""


def test_list_of_sources_is_filtered_and_waits_for_a_change(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    leader.put("/v1/gitops/source/listed", {"Name": "listed"})
    answer = leader.http.get("/v1/gitops/sources", params={"filter": 'Name == "listed"'})
    [only] = answer.json()
    assert (only["Name"], only["Health"]["Status"]) == ("listed", "pending")

    def index_at_rest() -> int | None:
        """The first check of a source changes it."""
        index = leader.http.get("/v1/gitops/sources").headers["X-Nomad-Index"]
        waited = leader.http.get("/v1/gitops/sources", params={"index": index, "wait": "10ms"})
        return int(index) if waited.headers["X-Nomad-Index"] == index else None

    index = until_blocking(index_at_rest, 60, "the sources come to rest")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(leader.get, "/v1/gitops/sources", index=index, wait="30s")
        leader.put("/v1/gitops/source/listed/pause", {"Reason": "lunch"})
        found = {each["Name"]: each["Health"]["Status"] for each in waiting.result(40)}
    assert found["listed"] == "paused"


def test_removed_source_leaves_no_series(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    leader.put("/v1/gitops/source/brief", {"Name": "brief"})
    assert 'source="brief"' in metrics(leader)
    leader.http.delete("/v1/gitops/source/brief")
    assert 'source="brief"' not in metrics(leader)


def test_adopt_takes_over_jobs_by_hand_and_of_removed_sources_and_lists_them(
    cluster: ServerCluster, directory: Path
) -> None:
    follower = cluster.followers()[0]
    follower.put("/v1/gitops/source/former", {"Name": "former"})
    earlier = WorkTree(directory / "former")
    earlier.commit({"left.hcl": batch_job("left")})
    asyncio.run(earlier.push(f"{follower.url}/git/former.git"))
    spec = follower.get("/v1/job/left")
    by_hand = {**spec, "ID": "by-hand", "Name": "by-hand", "Origin": None, "Priority": 77}
    follower.put("/v1/jobs", {"Job": by_hand})
    assert follower.http.delete("/v1/gitops/source/former").status_code == 200
    follower.put("/v1/gitops/source/heir", {"Name": "heir"})
    work = WorkTree(directory / "heir")
    work.commit({"own.hcl": batch_job("own")})
    asyncio.run(work.push(f"{follower.url}/git/heir.git"))
    follower.put("/v1/gitops/source/heir/pause", {})
    refused = cli(follower, "source", "adopt", "heir")
    assert (refused.returncode, "it is paused" in refused.stderr) == (1, True)
    # The branch moves while the source is paused, so nothing is applied before the adoption.
    work.commit({"left.hcl": batch_job("left"), "hand.hcl": batch_job("by-hand")})
    asyncio.run(work.push(f"{follower.url}/git/heir.git"))
    follower.put("/v1/gitops/source/heir/resume", {})
    held = until_source(cluster, "heir", has_status("held"))
    assert "belonged to source 'former'" in held["Health"]["Reasons"][0]["Text"]
    taken = cli(follower, "source", "adopt", "heir")
    assert (taken.returncode, sorted(taken.stdout.splitlines())) == (
        0,
        [
            "Took over job 'by-hand'.",
            "Took over job 'left' of the removed source 'former'.",
        ],
    ), taken.stderr
    found = source(follower, "heir")
    assert (found["Adopt"], found["Health"]["Jobs"]["Total"]) == (True, 3)
    again = cli(follower, "source", "adopt", "heir")
    assert (again.returncode, "took over no job" in again.stdout) == (0, True)


def test_adopt_takes_over_a_job_that_the_applied_commit_already_has(
    cluster: ServerCluster, directory: Path
) -> None:
    leader = cluster.leader()
    leader.put("/v1/gitops/source/keeper", {"Name": "keeper"})
    work = WorkTree(directory / "keeper")
    work.commit({"kept.hcl": SERVICE.replace("spread", "kept").replace("count = 3", "count = 0")})
    asyncio.run(work.push(f"{leader.url}/git/keeper.git"))
    leader.put("/v1/gitops/release", {"JobID": "kept"})
    assert cli(leader, "source", "adopt", "keeper").stdout.startswith(
        "Source 'keeper' took over no"
    )
    spec = leader.get("/v1/job/kept")
    leader.http.delete("/v1/job/kept", params={"purge": "true"})
    leader.put("/v1/jobs", {"Job": {**spec, "Origin": None, "Priority": 66}})
    assert source(leader, "keeper")["Health"]["Jobs"]["Total"] == 0
    taken = cli(leader, "source", "adopt", "keeper")
    assert (taken.returncode, taken.stdout) == (0, "Took over job 'kept'.\n"), taken.stderr
    assert leader.get("/v1/job/kept")["Priority"] == 50
