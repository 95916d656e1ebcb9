"""What becomes of a server that is not like the others, and of one without a leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.polling import until_blocking
from tests.support.server_cluster import ServerCluster, server_cluster, write_key


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with server_cluster(tmp_path) as running:
        yield running


def test_restart_with_another_cluster_key_is_refused(
    cluster: ServerCluster, tmp_path: Path
) -> None:
    strange = cluster.followers()[0]
    strange.stop()
    other_key = tmp_path / "other.key"
    write_key(other_key)
    strange.settings["cluster_key_file"] = str(other_key)
    strange.start()
    assert strange.ended() != 0
    assert "cluster key is another than the one this cluster was made with" in strange.log
    assert str(other_key.read_bytes()) not in strange.log


def test_new_server_with_another_cluster_key_is_refused_and_ends(tmp_path: Path) -> None:
    with server_cluster(tmp_path, late=1) as cluster:
        strange = cluster.members[2]
        other_key = tmp_path / "other.key"
        write_key(other_key)
        strange.settings["cluster_key_file"] = str(other_key)
        strange.start()
        assert strange.ended() != 0
        assert "copy the cluster key file of a server that works" in strange.log
        found = cluster.leader().get("/v1/agent/members")["Members"]
        assert len(found) == 2


def test_server_without_a_majority_answers_only_stale_reads(cluster: ServerCluster) -> None:
    leader = cluster.leader()
    last, killed = cluster.followers()
    last.put("/v1/namespace", {"Name": "kept"})
    until_blocking(lambda: "kept" in str(last.get("/v1/namespaces", stale="")) or None)
    leader.kill()
    killed.kill()
    until_blocking(lambda: not last.get("/v1/status/leader") or None)
    refused = last.http.get("/v1/namespaces")
    assert (refused.status_code, refused.text) == (500, "No cluster leader")
    stale = last.http.get("/v1/namespaces", params={"stale": ""})
    assert "kept" in stale.text
    assert stale.headers["X-Nomad-KnownLeader"] == "false"
    assert int(stale.headers["X-Nomad-LastContact"]) > 1000
