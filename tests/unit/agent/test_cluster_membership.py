"""Which servers are a node's: those of the cluster it met first, and what a backup makes of it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from agent.connection.cluster_membership import ClusterMembership
from orchgit.errors import RefusedError
from orchgit.model.cluster import ClusterName

OURS = ClusterName("c1", "c1")
OTHERS = ClusterName("c2", "c2")
UNKNOWN = ClusterName()


def membership_of(known: ClusterName) -> tuple[ClusterMembership, list[ClusterName]]:
    written: list[ClusterName] = []
    return ClusterMembership(known, written.append), written


def test_first_cluster_is_stored_and_others_are_refused() -> None:
    membership, written = membership_of(UNKNOWN)
    for _ in range(2):
        membership.admit("a:1", OURS)
    assert written == [OURS], "once"
    with pytest.raises(RefusedError, match="cannot use the server b:2: it is of another cluster"):
        membership.admit("b:2", OTHERS)
    assert (membership.known, written) == (OURS, [OURS])


def test_server_of_another_cluster_is_logged_once() -> None:
    membership, _ = membership_of(OURS)
    with capture_logs() as logged:
        for address in ("b:2", "b:2", "c:3"):
            with pytest.raises(RefusedError):
                membership.admit(address, OTHERS)
    assert str(logged).count("this server is of another cluster") == 2


def test_server_without_a_cluster_id_is_used_and_changes_nothing() -> None:
    membership, written = membership_of(OURS)
    membership.admit("a:1", UNKNOWN)
    assert (membership.known, written) == (OURS, [])


@pytest.mark.parametrize(
    "restored",
    [
        pytest.param(ClusterName("c1", "c9"), id="its own backup, onto new servers"),
        pytest.param(ClusterName("c9", "c1"), id="another's backup, onto its servers"),
    ],
)
def test_restored_backup_is_followed(restored: ClusterName) -> None:
    membership, written = membership_of(OURS)
    membership.admit("a:1", restored)
    assert written == [restored]
    assert membership.is_ours(restored)
    assert not membership.is_ours(OTHERS)


def test_names_without_log_ids_are_compared_by_cluster_id() -> None:
    assert not ClusterName("c1").may_be(ClusterName("c2"))
