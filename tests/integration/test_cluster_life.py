"""The life of a cluster: formed by servers that find each other, grown, hurt, shrunk, restored."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.joining_servers import JoiningServer, joining_servers
from tests.support.polling import until_blocking
from tests.support.server_cluster import write_key

VOTERS = {"s1": True, "s2": True, "s3": True}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[JoiningServer]]:
    """Four; the first three have formed a cluster, started one after the other."""
    directory = tmp_path_factory.mktemp("life")
    with joining_servers(directory, 4, bootstrap_expect=3) as found:
        found[0].start()
        found[0].wait_for_log("waiting for 2 more servers, know: nobody yet")
        found[1].start()
        found[0].wait_for_log(f"waiting for 1 more server, know: s2 ({found[1].rpc})")
        found[2].start()
        for one in found[:3]:
            one.wait_for_peers(**VOTERS)
        yield found


@pytest.fixture(autouse=True)
def three_servers(servers: list[JoiningServer]) -> None:
    """Whatever the test before did: three members, all of them running, and a leader."""
    for one in servers[:3]:
        if not one.runs:
            one.start()
    leader = leader_of(servers)
    for name in leader.peers():
        if name not in VOTERS:
            leader.cli("server", "force-leave", name)
    for one in servers[:3]:
        one.wait_for_peers(**VOTERS)


def leader_of(servers: list[JoiningServer]) -> JoiningServer:
    """The server that all of those that run know as the leader."""

    def agreed() -> JoiningServer | None:
        running = [one for one in servers[:3] if one.runs and one.peers()]
        said = {one.http.get("/v1/status/leader").json() for one in running}
        return next((one for one in running if said == {one.rpc}), None)

    return until_blocking(agreed)


def others(servers: list[JoiningServer], leader: JoiningServer) -> list[JoiningServer]:
    return [one for one in servers[:3] if one is not leader]


def test_starting_servers_form_one_cluster(servers: list[JoiningServer]) -> None:
    formed = [one.name for one in servers[:3] if "forming a cluster of 3" in one.log]
    assert len(formed) == 1
    ids = {one.http.get("/v1/agent/self").json()["member"]["Tags"]["id"] for one in servers[:3]}
    assert len(ids) == 3
    for one in servers[:3]:
        one.wait_for_peers(**VOTERS)


def test_every_server_shows_all_members(servers: list[JoiningServer]) -> None:
    leader = leader_of(servers)
    for one in servers[:3]:
        shown = one.cli("server", "members")
        lines = {line.split()[0]: line.split() for line in shown.splitlines()[1:]}
        assert {name: line[3:5] for name, line in lines.items()} == {
            f"{each.name}.global": ["alive", str(each is leader).lower()] for each in servers[:3]
        }
    assert "Log Version" in leader.cli("server", "members", "-verbose")
    assert "command_version" in leader.cli("server", "members", "-detailed")
    assert leader.raft in leader.cli("operator", "raft", "list-peers")
    told = leader.cli("agent-info")
    assert re.search(r"^  members += 3$", told, re.MULTILINE)
    assert re.search(r"^  num_peers += 2$", told, re.MULTILINE)
    assert re.search(r"^  state += Leader$", told, re.MULTILINE)


def test_leadership_is_transferred_by_address_and_by_id(servers: list[JoiningServer]) -> None:
    first = leader_of(servers)
    second, third = others(servers, first)
    answer = third.cli("operator", "raft", "transfer-leadership", "-peer-address", second.raft)
    assert answer == f"{second.name} leads now.\n"
    assert leader_of(servers) is second
    own_id = third.http.get("/v1/agent/self").json()["member"]["Tags"]["id"]
    second.cli("operator", "raft", "transfer-leadership", "-peer-id", own_id)
    assert leader_of(servers) is third
    unknown = third.cli(
        *("operator", "raft", "transfer-leadership", "-peer-address", "127.0.0.1:1"), code=1
    )
    assert "was not found in the Raft configuration" in unknown


def test_autopilot_is_configured_and_reports_server_health(servers: list[JoiningServer]) -> None:
    one = others(servers, leader_of(servers))[0]
    until_blocking(lambda: one.http.get("/v1/operator/autopilot/health").status_code == 200 or None)
    health = one.http.get("/v1/operator/autopilot/health").json()
    assert health["FailureTolerance"] == 1
    assert len(health["Voters"]) == 3
    assert "true" in one.cli("operator", "autopilot", "health")
    set_config = ("operator", "autopilot", "set-config")
    one.cli(*set_config, "-max-trailing-logs", "300", "-server-stabilization-time", "1s")
    shown = one.cli("operator", "autopilot", "get-config")
    assert "MaxTrailingLogs         = 300" in shown
    assert "ServerStabilizationTime = 1s" in shown
    stale = one.http.put("/v1/operator/autopilot/configuration?cas=1", json={"MinQuorum": 9})
    assert stale.json() is False
    assert one.http.get("/v1/operator/autopilot/configuration").json()["MinQuorum"] == 0
    wrong = one.http.put(
        "/v1/operator/autopilot/configuration", json={"ServerStabilizationTime": "soon"}
    )
    assert wrong.status_code == 400


def test_fourth_server_joins_and_replaces_a_dead_one(
    servers: list[JoiningServer],
) -> None:
    """Joined by hand: its configuration names nobody."""
    leader = leader_of(servers)
    leader.cli("operator", "autopilot", "set-config", "-server-stabilization-time", "500ms")
    fourth = servers[3]
    fourth.server.pop("server_join", None)
    fourth.server["bootstrap_expect"] = 0
    fourth.start()
    fourth.wait_for_log("waiting for a member of the cluster; know: nobody yet")
    assert "1 of 1 servers answered" in fourth.cli("server", "join", leader.rpc)
    fourth.wait_for_peers(**VOTERS, s4=True)
    fourth.cli("namespace", "apply", "by-the-fourth")
    assert "by-the-fourth" in leader.cli("namespace", "list")
    assert fourth.end() == 0
    until_blocking(lambda: "failed" in leader.cli("server", "members") or None)
    leader.cli("server", "force-leave", "s4")
    leader.wait_for_peers(**VOTERS)
    assert "s4" not in leader.cli("server", "members")


def test_living_server_cannot_be_forced_to_leave_and_its_name_is_reserved(
    servers: list[JoiningServer], tmp_path: Path
) -> None:
    leader = leader_of(servers)
    for living in ("s1", "s2", "s3"):
        answer = leader.http.put(f"/v1/agent/force-leave?node={living}")
        assert "it is alive" in answer.text, answer.text
    key = Path(servers[0].server["cluster_key_file"])
    second = JoiningServer("s2", tmp_path, key)
    second.server["server_join"] = {"retry_join": [leader.rpc]}
    second.start()
    try:
        until_blocking(lambda: "has that name" in second.log or None)
        assert second.process is not None
        assert second.process.wait(30) != 0
    finally:
        second.end(signal.SIGKILL)
    leader.wait_for_peers(**VOTERS)


def test_server_removed_while_it_was_down_joins_again(
    servers: list[JoiningServer],
) -> None:
    leader = leader_of(servers)
    away = others(servers, leader)[0]
    away.end(signal.SIGKILL)
    leader.cli("operator", "raft", "remove-peer", "-peer-address", away.raft)
    leader.wait_for_peers(**{name: True for name in VOTERS if name != away.name})
    leader.cli("namespace", "apply", "meanwhile")
    away.start()
    away.wait_for_log("joining again")
    leader.wait_for_peers(**VOTERS)
    until_blocking(lambda: "meanwhile" in away.http.get("/v1/namespaces?stale").text or None)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_server_that_lost_its_disk_rejoins_without_help(
    servers: list[JoiningServer], leads: bool
) -> None:
    leader = leader_of(servers)
    lost = leader if leads else others(servers, leader)[0]
    stay = others(servers, lost)
    leader.cli("namespace", "apply", f"before-{leads}")
    lost.lose_disk()
    lost.start()
    lost.wait_for_log("joining the cluster of", since_start=True)
    until_blocking(lambda: any("lost its disk" in one.log for one in stay) or None, 120)
    for one in servers[:3]:
        one.wait_for_peers(**VOTERS)
    leader_of(servers).cli("namespace", "apply", f"after-{leads}")
    shown = until_blocking(
        lambda: [n for n in names_at(lost) if n == f"after-{leads}"] and names_at(lost)
    )
    assert f"before-{leads}" in shown
    assert "removed from the cluster" not in lost.log_since_start


def names_at(server: JoiningServer) -> list[str]:
    return [one["Name"] for one in server.http.get("/v1/namespaces?stale").json()]


@pytest.mark.long
def test_cluster_with_two_of_three_disks_lost_refuses_writes(tmp_path: Path) -> None:
    with joining_servers(tmp_path, 3, bootstrap_expect=3) as found:
        for one in found:
            one.start()
        for one in found:
            one.wait_for_peers(**VOTERS)
        kept, *lost = found
        leader_of(found).cli("namespace", "apply", "acknowledged")
        until_blocking(lambda: "acknowledged" in names_at(kept) or None)
        for one in lost:
            one.lose_disk()
        for one in lost:
            one.start()
        for one in lost:
            one.wait_for_log("a majority has to be there without it", since_start=True)
        refused = kept.http.put("/v1/namespace", json={"Name": "lost"})
        assert refused.status_code == 500
        assert "No cluster leader" in refused.text
        assert "acknowledged" in names_at(kept)
        assert all(one.peers() == {} for one in lost)
        kept.end(signal.SIGKILL)
        kept.force_peers(kept)
        kept.start()
        kept.wait_for_peers(**VOTERS)
        until_blocking(lambda: all("acknowledged" in names_at(one) for one in found) or None)


def test_leader_that_leaves_transfers_leadership_first(servers: list[JoiningServer]) -> None:
    leader = leader_of(servers)
    leader.settings["leave_on_terminate"] = True
    leader.end(signal.SIGKILL)
    leader.start()
    second = leader_of(servers)
    second.cli("operator", "raft", "transfer-leadership", "-peer-address", leader.raft)
    assert leader_of(servers) is leader
    stay = others(servers, leader)
    assert leader.end() == 0
    assert "left the cluster" in leader.log
    stay[0].wait_for_peers(**{one.name: True for one in stay})
    stay[0].cli("namespace", "apply", "without-it")
    leader.settings["leave_on_terminate"] = False


def test_interrupted_follower_leaves_the_cluster(servers: list[JoiningServer]) -> None:
    leader = leader_of(servers)
    follower = others(servers, leader)[0]
    follower.settings["leave_on_interrupt"] = True
    follower.end(signal.SIGKILL)
    follower.start()
    until_blocking(lambda: follower.peers() or None)
    until_blocking(lambda: follower.http.get("/v1/status/leader").json() == leader.rpc or None)
    assert follower.end(signal.SIGINT) == 0
    assert "left the cluster" in follower.log
    assert follower.name not in leader.peers()
    assert follower.name not in leader.cli("server", "members")
    follower.settings["leave_on_interrupt"] = False


def test_snapshot_restored_through_a_follower_reaches_all_servers(
    servers: list[JoiningServer], tmp_path: Path
) -> None:
    leader = leader_of(servers)
    follower = others(servers, leader)[0]
    file = str(tmp_path / "cluster.snap")
    follower.cli("namespace", "apply", "in-the-snapshot")
    follower.cli("operator", "snapshot", "save", file)
    follower.cli("namespace", "delete", "in-the-snapshot")
    follower.cli("operator", "snapshot", "restore", "-yes", file)
    leader_of(servers)
    for one in servers[:3]:
        until_blocking(
            lambda one=one: "in-the-snapshot" in one.http.get("/v1/namespaces?stale").text or None
        )
        assert len(one.http.get("/v1/agent/members").json()["Members"]) == 3


def test_killed_servers_restart_as_the_same_cluster(servers: list[JoiningServer]) -> None:
    leader_of(servers).cli("namespace", "apply", "stays")
    for one in servers[:3]:
        one.end(signal.SIGKILL)
    for one in servers[:3]:
        one.start()
    leader = leader_of(servers)
    assert "stays" in leader.cli("namespace", "list")
    for one in servers[:3]:
        one.wait_for_log("member of the cluster", since_start=True)
    assert sum(one.log.count("forming a cluster of 3") for one in servers[:3]) == 1


def test_server_of_another_cluster_or_with_another_key_is_refused(
    servers: list[JoiningServer], tmp_path: Path
) -> None:
    leader = leader_of(servers)
    with joining_servers(tmp_path, 2) as (alone, stranger):
        for one in (alone, stranger):
            one.server.pop("server_join")
            one.start()
            until_blocking(lambda one=one: one.peers() or None)
        assert "of another cluster" in alone.cli("server", "join", leader.rpc, code=1)
        assert "127.0.0.1:1" in alone.cli("server", "join", "127.0.0.1:1", code=1)
        stranger.end(signal.SIGKILL)
        write_key(tmp_path / "other.key")
        stranger.server["cluster_key_file"] = str(tmp_path / "other.key")
        stranger.settings["data_dir"] = str(tmp_path / "fresh")
        stranger.settings["name"] = "stranger"
        stranger.start("-retry-join", leader.rpc)
        stranger.wait_for_log("its cluster key is another than the cluster")
        assert stranger.process is not None
        assert stranger.process.wait(60) == 1


def test_server_with_start_join_and_no_reachable_server_does_not_start(tmp_path: Path) -> None:
    with joining_servers(tmp_path, 1) as (one,):
        one.server.pop("server_join")
        one.start("-join", "127.0.0.1:1")
        assert one.process is not None
        assert one.process.wait(60) == 1
        assert "none of start_join answers (127.0.0.1:1)" in one.log
        one.server["retry_join"] = ["127.0.0.1:1"]
        one.server |= {"retry_max": 2, "retry_interval": "100ms"}
        one.start()
        assert one.process.wait(60) == 1
        assert "2 attempts (retry_max) have failed; waiting for a member" in one.log
