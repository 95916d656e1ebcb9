"""Changes of the members: refused, timed out, confirmed."""

from __future__ import annotations

import asyncio

import pytest

from orchgit.errors import RefusedError, TimedOutError, UnavailableError
from orchgit.raft.configuration import MemberChange
from orchgit.replication.membership_changes import MembershipChanges
from orchgit.replication.pending_proposals import PendingProposals
from orchgit.replication.running_node import RunningNode
from tests.unit.replication.raft_node_double import RaftNodeDouble, cluster_of, run


class Formed:
    """Counts how often a cluster was formed."""

    count = 0

    async def __call__(self) -> None:
        self.count += 1


def changes_of(
    node: RunningNode, formed: Formed | None = None, listens: bool = True
) -> MembershipChanges:
    return MembershipChanges(
        node, cluster_of(node), PendingProposals(), listens, formed or Formed()
    )


def test_membership_change_that_nobody_confirms_times_out() -> None:
    async def scenario() -> None:
        node = RaftNodeDouble()
        with pytest.raises(TimedOutError, match=r"were changed \(c:1\).* in 10 s"):
            await changes_of(node.running()).add("c:1")
        assert asyncio.get_running_loop().time() == 10
        assert node.changes == [MemberChange("c:1", voter=False)]

    run(scenario())


def test_server_out_of_reach_adds_no_member() -> None:
    async def scenario() -> None:
        node = RaftNodeDouble()
        with pytest.raises(RefusedError, match="no raft address that others can reach"):
            await changes_of(node.running(), listens=False).add("c:1")
        assert node.changes == []

    run(scenario())


def test_bootstrap_of_a_member_is_refused_and_forms_nothing() -> None:
    async def scenario() -> None:
        node, formed = RaftNodeDouble(), Formed()
        changes = changes_of(node.running(), formed)
        node.answer = False
        with pytest.raises(RefusedError, match=r"belongs to one already \(a:1, b:1\)"):
            await changes.bootstrap()
        assert formed.count == 0
        node.answer = True
        await changes.bootstrap()
        assert formed.count == 1

    run(scenario())


def test_admission_that_the_disk_refuses_raises() -> None:
    async def scenario() -> None:
        node = RaftNodeDouble()
        await changes_of(node.running()).admit(3, 7)
        node.answer = UnavailableError("cannot write: the disk is full")
        with pytest.raises(UnavailableError, match="full"):
            await changes_of(node.running()).admit(3, 7)

    run(scenario())


def test_stopped_server_refuses_every_change_of_the_members() -> None:
    async def scenario() -> None:
        changes = changes_of(RunningNode())
        for call in (changes.bootstrap(), changes.admit(1, 1), changes.remove("b:1")):
            with pytest.raises(UnavailableError, match="stopping"):
                await call

    run(scenario())
