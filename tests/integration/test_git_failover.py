"""Three whole servers with agents: git works on after the leader and its disk are lost."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from tests.support.git_repos import GitAnswer, WorkTree, batch_job
from tests.support.joining_servers import joining_servers
from tests.support.lost_disk import lose
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, server_cluster


def url(member: MemberServer) -> str:
    return f"{member.url}/git/demo.git"


def push(work: WorkTree, member: MemberServer) -> GitAnswer:
    return asyncio.run(work.push(url(member)))


def statuses(member: MemberServer) -> set[str]:
    """Of the nodes."""
    return {node["Status"] for node in member.get("/v1/nodes")}


def newest(member: MemberServer) -> dict[str, Any]:
    rollouts = member.get("/v1/gitops/rollouts", source="demo")
    found: dict[str, Any] = max(rollouts, key=lambda rollout: rollout["CreateIndex"])
    return found


def rolled_out(member: MemberServer, commit: str) -> None:
    """The push shows that too, unless the lead changes meanwhile, as it may on a busy machine."""

    def healthy() -> bool | None:
        rollout = newest(member)
        return (rollout["Commit"]["ID"], rollout["Status"]) == (commit, "healthy") or None

    until_blocking(healthy)


@pytest.mark.long
def test_clone_revert_and_push_work_after_the_leader_is_lost(tmp_path: Path) -> None:
    settings = {"num_schedulers": 1, "heartbeat_s": 2, "failover_s": 4}
    with server_cluster(tmp_path / "cluster", agents=True, **settings) as cluster:
        leader = cluster.leader()
        leader.put("/v1/gitops/source/demo", {"Name": "demo"})
        until_blocking(lambda: "ready" in statuses(leader) or None)
        follower = cluster.followers()[0]
        work = WorkTree(tmp_path / "work")
        first = work.commit({"a.hcl": batch_job("a", count=1)}, "One")
        answer = push(work, follower)
        assert answer.returncode == 0, answer.output
        rolled_out(leader, first)
        second = work.commit({"b.hcl": batch_job("b", count=1)}, "Two")
        answer = push(work, leader)
        assert answer.returncode == 0, answer.output

        leader.kill()
        lose(leader.directory)
        successor = cluster.leader()
        for member in cluster.alive:
            clone = WorkTree(tmp_path / f"clone-{member.number}")
            assert clone.git("ls-remote", url(member), "refs/heads/main").split()[0] == second
            clone.git("pull", "--quiet", url(member), "main")
            assert clone.head() == second

        text = base64.b64encode(batch_job("a", count=1, text="new").encode()).decode()
        files = [{"Path": "a.hcl", "Content": text}]
        planned = successor.put("/v1/gitops/source/demo/plan", {"Files": files})
        assert [(job["JobID"], job["Action"]) for job in planned["Jobs"]] == [
            ("a", "update"),
            ("b", "delete"),
        ]
        rollout = newest(successor)
        assert rollout["Commit"]["ID"] == second
        reverted = successor.put(f"/v1/gitops/rollout/{rollout['ID']}/revert")
        assert reverted is not None
        other = next(each for each in cluster.alive if each is not successor)
        clone.git("pull", "--quiet", url(other), "main")
        assert clone.git("rev-parse", "HEAD^{tree}") == work.git("rev-parse", f"{first}^{{tree}}")

        until_blocking(lambda: {"ready", "down"} == statuses(successor) or None)
        third = clone.commit({"c.hcl": batch_job("c", count=1)}, "Three")
        answer = push(clone, other)
        assert answer.returncode == 0, answer.output
        rolled_out(other, third)
        until_blocking(lambda: other.get("/v1/job/c")["Status"] == "dead" or None)


@pytest.mark.long
def test_joining_server_brings_its_mirrors_up_to_date(tmp_path: Path) -> None:
    with joining_servers(tmp_path, 3, bootstrap_expect=2) as servers:
        first, second, joined = servers
        first.start()
        second.start()
        first.wait_for_peers(**{first.name: True, second.name: True})
        first.cli("source", "add", "demo")
        work = WorkTree(tmp_path / "work")
        commit = work.commit({"a.hcl": batch_job("a")}, "One")
        address = str(first.http.base_url).rstrip("/")
        answer = asyncio.run(work.push(f"{address}/git/demo.git"))
        assert answer.returncode == 0, answer.output
        joined.start()
        branch = joined.directory / "data" / "git" / "demo.git" / "refs" / "heads" / "main"
        assert until_blocking(lambda: branch.exists() and branch.read_text().strip()) == commit
