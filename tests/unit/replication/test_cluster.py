"""What a server knows of its cluster: members, leader, and whether it leads for certain."""

from __future__ import annotations

import asyncio

import pytest

from orchgit.clock import boottime_s
from orchgit.errors import RefusedError
from orchgit.raft.configuration import Member
from orchgit.replication.leadership import Leadership
from orchgit.replication.running_node import RunningNode
from tests.unit.replication.raft_node_double import RaftNodeDouble, cluster_of, run


def test_cluster_knows_nothing_before_the_start_and_after_the_stop() -> None:
    node = RunningNode()
    stopped = RaftNodeDouble(confirmed_s=boottime_s()).running()
    stopped.stop()
    for one in (node, stopped):
        cluster = cluster_of(one)
        assert cluster.address == "a:1"
        assert (cluster.members, cluster.other_addresses, cluster.peer_progress()) == ((), [], ())
        assert (cluster.leader_address, cluster.leader_and_term) == (None, (None, 0))
        assert (cluster.term, cluster.last_log_index, cluster.last_contact_s) == (0, 0, None)
        assert not any((cluster.has_configuration, cluster.is_removed, cluster.is_catching_up))
        assert not cluster.waits_for_admission
        assert not any((cluster.may_append, cluster.leads_for_certain))


def test_cluster_tells_what_the_running_node_knows() -> None:
    cluster = cluster_of(RaftNodeDouble().running())
    assert cluster.other_addresses == ["b:1"]
    assert cluster.members == (Member("a:1", True), Member("b:1", True))
    assert (cluster.leader_address, cluster.term, cluster.admission) == ("a:1", 3, (3, 7))
    assert (cluster.last_log_index, cluster.last_contact_s) == (9, 0.0)
    assert cluster.has_configuration
    assert cluster.is_removed
    assert cluster.is_catching_up
    assert cluster.waits_for_admission


@pytest.mark.parametrize(("ago_s", "certain"), [(0.0, True), (0.45, False), (60.0, False)])
def test_leadership_is_certain_for_nine_tenths_of_an_election_timeout(
    ago_s: float, certain: bool
) -> None:
    node = RaftNodeDouble(confirmed_s=boottime_s() - ago_s).running()
    assert cluster_of(node).leads_for_certain is certain


def test_leader_of_the_raft_node_may_append_before_it_is_the_leader_of_the_state() -> None:
    leadership = Leadership()
    assert cluster_of(RaftNodeDouble().running(), leadership).may_append
    deposed = cluster_of(RaftNodeDouble(is_leader=False).running(), leadership)
    assert not deposed.may_append
    leadership.set(True)
    assert deposed.is_leader
    assert deposed.may_append


def test_leader_change_returns_at_the_change_or_at_the_timeout() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        node = RaftNodeDouble()
        cluster = cluster_of(node.running())
        assert await cluster.leader_change("other", 10) == "a:1"
        assert loop.time() == 0
        assert await cluster.leader_change("a:1", 10) == "a:1"
        assert loop.time() == 10
        waiting = asyncio.create_task(cluster.leader_change("a:1", 10))
        await asyncio.sleep(0)
        node.status.leader_and_term = ("b:1", 4)
        cluster.leader_changed()
        assert await waiting == "b:1"
        assert loop.time() == 10

    run(scenario())


def test_refused_transfer_of_leadership_raises_the_refusal() -> None:
    async def scenario() -> None:
        node = RaftNodeDouble()
        cluster = cluster_of(node.running())
        await cluster.transfer_leadership("b:1")
        node.answer = RefusedError("cannot transfer: it has no vote")
        with pytest.raises(RefusedError, match="no vote"):
            await cluster.transfer_leadership("b:1")

    run(scenario())
