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


def kept(known: ClusterName) -> tuple[ClusterMembership, list[ClusterName]]:
    written: list[ClusterName] = []
    return ClusterMembership(known, written.append), written


def test_the_first_is_kept_and_others_are_refused() -> None:
    membership, written = kept(UNKNOWN)
    for _ in range(2):
        membership.admit("a:1", OURS)
    assert written == [OURS], "once"
    with pytest.raises(RefusedError, match="cannot use the server b:2: it is of another cluster"):
        membership.admit("b:2", OTHERS)
    assert (membership.known, written) == (OURS, [OURS])


def test_each_stranger_is_told_of_once() -> None:
    membership, _ = kept(OURS)
    with capture_logs() as logged:
        for address in ("b:2", "b:2", "c:3"):
            with pytest.raises(RefusedError):
                membership.admit(address, OTHERS)
    assert str(logged).count("this server is of another cluster") == 2


def test_servers_of_an_older_version_are_used_and_teach_nothing() -> None:
    membership, written = kept(OURS)
    membership.admit("a:1", UNKNOWN)
    assert (membership.known, written) == (OURS, [])


@pytest.mark.parametrize(
    "restored",
    [
        pytest.param(ClusterName("c1", "c9"), id="its own backup, onto new servers"),
        pytest.param(ClusterName("c9", "c1"), id="another's backup, onto its servers"),
    ],
)
def test_a_restored_backup_is_followed(restored: ClusterName) -> None:
    membership, written = kept(OURS)
    membership.admit("a:1", restored)
    assert written == [restored]
    assert membership.is_ours(restored)
    assert not membership.is_ours(OTHERS)


def test_a_log_without_an_id_is_no_sign() -> None:
    assert not ClusterName("c1").may_be(ClusterName("c2"))
