"""Proposals, refusals, and the id that the first leader proposes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orchgit.clock import FakeClock
from orchgit.errors import NotLeaderError, UnavailableError
from orchgit.ids import SequentialIds
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_node.proposal import Applied
from orchgit.replication.cluster_naming import ClusterNaming
from orchgit.replication.commands import codec
from orchgit.replication.commands.entry import Noop
from orchgit.replication.commands.settings import SetClusterId
from orchgit.replication.leadership import Leadership
from orchgit.replication.pending_proposals import PendingProposals
from orchgit.replication.proposal import RequestWrites
from orchgit.replication.running_node import RunningNode
from orchgit.replication.write_failure import WriteFailure
from orchgit.replication.writer import Writer
from orchgit.state.store import Store
from tests.support.state import apply, open_store
from tests.unit.replication.raft_node_double import RaftNodeDouble, cluster_of, run


def writer_of(store: Store, node: RunningNode, failure: WriteFailure | None = None) -> Writer:
    return Writer(
        node,
        cluster_of(node),
        store,
        FakeClock(now_ns=77),
        PendingProposals(),
        failure or WriteFailure(),
        DiskSpace(),
    )


def test_proposal_gets_the_clocks_time_and_its_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, writes = RaftNodeDouble(), RequestWrites()
        writer = writer_of(store, node.running())
        assert await writer.propose(Noop(), writes=writes) == Applied(5, "done")
        assert await writer.barrier() == 5
        assert [codec.decode(one).now_ns for one in node.submitted] == [77, 77]
        assert writes.any

    store = open_store(tmp_path)
    run(scenario())
    store.close()


def test_follower_proposes_only_what_may_be_forwarded(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = RaftNodeDouble(is_leader=False, leader_and_term=("b:1", 3))
        writer, writes = writer_of(store, node.running()), RequestWrites()
        with pytest.raises(NotLeaderError, match="ask b:1"):
            await writer.propose(Noop(), writes=writes)
        assert not node.submitted
        assert not writes.any
        await writer.propose(Noop(), forward=True)
        node.status.leader_and_term = (None, 3)
        with pytest.raises(NotLeaderError, match="no leader is known"):
            await writer.propose(Noop(), forward=True)
        assert len(node.submitted) == 1

    store = open_store(tmp_path)
    run(scenario())
    store.close()


def test_nothing_is_proposed_after_a_failure(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, failure = RaftNodeDouble(), WriteFailure()
        writer = writer_of(store, node.running(), failure)
        failure.happen(OSError("worn out"))
        failure.happen(OSError("later"))
        await failure.happened()
        with pytest.raises(UnavailableError, match=r"failed \(worn out\); look at the disk"):
            await writer.propose(Noop())
        assert not node.submitted

    store = open_store(tmp_path)
    run(scenario())
    store.close()


def test_cluster_without_an_id_is_named_once_by_its_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, leadership = RaftNodeDouble(), Leadership()
        naming = ClusterNaming(store, writer_of(store, node.running()), SequentialIds("0000c1d0"))
        running = asyncio.create_task(naming.run(leadership.subscribe()))
        leadership.set(True)
        while not node.submitted:
            await asyncio.sleep(0)
        (command,) = (codec.decode(one) for one in node.submitted)
        assert isinstance(command, SetClusterId)
        apply(store, command)
        await naming.give_id()
        leadership.close()
        await running
        assert len(node.submitted) == 1

    store = open_store(tmp_path)
    run(scenario())
    store.close()
