"""Reads that wait until they are current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from orchgit.errors import NotLeaderError, TimedOutError
from orchgit.replication.current_reads import CurrentReads
from orchgit.state.watch import Watch
from tests.unit.replication.raft_node_double import RaftNodeDouble, cluster_of, run


class WatchDouble(Watch):
    """Notes which indexes are waited for; calls `on_wait` at the first."""

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        super().__init__({}, 0)
        self.waited: list[int] = []
        self._on_wait = on_wait

    async def wait_applied(self, index: int, timeout_s: float) -> bool:
        if not self.waited:
            self._on_wait()
        self.waited.append(index)
        return True


def test_current_read_waits_until_the_entry_is_applied() -> None:
    async def scenario() -> None:
        node, watch = RaftNodeDouble(), WatchDouble()
        node.answer = 7
        running = node.running()
        reads = CurrentReads(running, cluster_of(running), watch, offset=100)
        assert await reads.read_index() == 107
        assert watch.waited == [107]

    run(scenario())


def test_current_read_follows_an_offset_that_a_restored_snapshot_moves() -> None:
    async def scenario() -> None:
        def restore() -> None:
            reads.offset = 50

        node, watch = RaftNodeDouble(), WatchDouble(restore)
        node.answer = 7
        running = node.running()
        reads = CurrentReads(running, cluster_of(running), watch, offset=0)
        assert await reads.read_index() == 57
        assert watch.waited == [7, 57]

    run(scenario())


def test_current_read_of_a_state_that_lags_behind_the_log_is_refused_at_the_timeout() -> None:
    async def scenario() -> None:
        node, watch = RaftNodeDouble(), Watch({}, 6)
        node.answer = 7
        running = node.running()
        reads = CurrentReads(running, cluster_of(running), watch, offset=0)
        with pytest.raises(TimedOutError, match="entry 7 of the log is not applied after 3 s"):
            await reads.read_index(timeout_s=3)
        assert asyncio.get_running_loop().time() == 3

    run(scenario())


def test_current_read_that_no_majority_confirms_is_refused_at_the_timeout() -> None:
    async def scenario() -> None:
        node = RaftNodeDouble()
        node.answers = False
        running = node.running()
        reads = CurrentReads(running, cluster_of(running), WatchDouble(), offset=0)
        with pytest.raises(NotLeaderError):
            await reads.read_index(timeout_s=3)
        assert asyncio.get_running_loop().time() == 3

    run(scenario())


def test_current_read_on_a_follower_names_the_leader() -> None:
    async def scenario() -> None:
        running = RaftNodeDouble(leader_and_term=("b:1", 3)).running()
        reads = CurrentReads(running, cluster_of(running), WatchDouble(), offset=0)
        with pytest.raises(NotLeaderError, match="ask b:1"):
            await reads.read_index()

    run(scenario())
